"""`python -m thrifty` is `thrifty`."""

from thrifty.cli import main

if __name__ == "__main__":
    main()

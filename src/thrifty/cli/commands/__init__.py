"""One command a file; each returns its exit code."""

"""Write the report of a campaign: one HTML file that needs no network and runs no script.

    gather.py     the numbers of a folder, read without executing anything in it
    headline.py   the card on top: can the posterior be trusted, what was saved
    plan_sections.py, run_sections.py, inference_sections.py    what each part of the page says
    sequential_sections.py    what it says of rounds and generations
    svg.py        figures as inline SVG
    page.py, templates/    the page itself, all text from a folder escaped
    results.py    what inference saved in the folder

`thrifty.report.write(path, folder)` is the one public function.
"""

from thrifty.report.page import write

__all__ = ["write"]

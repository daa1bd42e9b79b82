"""Write the pages of all codes of mhaviz check again, and their table in the tour: python samples/make_checks.py

A page is the docstring of the code's probe, which `mhaviz check --explain CODE` prints.
"""

import re
from pathlib import Path

from mhaviz.checks.registry import codes

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "samples" / "checks.md"
TOUR = ROOT / "samples" / "README.md"

HEAD = """# What `mhaviz check` finds

Made by `python samples/make_checks.py` from the docstrings of the probes. `mhaviz check --explain CODE` prints a page,
`--ignore CODE` leaves a code out. [The tour](README.md#checks-check) shows the command.

In the shapes and examples, `keep` and `visible` are True where a query sees a key. Probes run in this order, a cause
before what follows from it.
"""

TABLE = re.compile(r"^\| code \| what it means \|\n\| --- \| --- \|\n(?:\|.*\n)+", re.MULTILINE)
"""The table of the tour."""


def pages() -> str:
    """The pages of all codes, in Markdown."""
    return "\n".join([HEAD, *(f"## {code}\n\n{_in_markdown(one.explanation)}\n" for code, one in codes().items())])


def with_table(tour: str) -> str:
    """The tour with the first line of each page in its table."""
    rows = [f"| [`{code}`](checks.md#{code}) | {_in_markdown(one.meaning)} |\n" for code, one in codes().items()]
    table = "".join(["| code | what it means |\n", "| --- | --- |\n", *rows])
    made, count = TABLE.subn(lambda _: table, tour)
    if count != 1:
        raise SystemExit(f"expected one table of codes in {TOUR}, got {count}")
    return made


def _in_markdown(docstring: str) -> str:
    return (
        docstring.replace("``", "`")
        .replace("Why it hides:", "**Why it hides:**")
        .replace("How to mend it:", "**How to mend it:**")
    )


if __name__ == "__main__":
    PAGES.write_text(pages(), encoding="utf-8")
    TOUR.write_text(with_table(TOUR.read_text(encoding="utf-8")), encoding="utf-8")

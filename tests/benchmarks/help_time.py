"""How long --help takes, beside the --help of a bare typer app of three commands.

All are started with the interpreter that runs this script. What mhaviz adds to typer should be little.
"""

import sys
import tempfile
from pathlib import Path

from measure import Row, parse_repeat, print_table, time_commands

TARGETS = {"--help": 1.15, "heatmap --help": 1.3}

BARE_APP = '''
import typer

app = typer.Typer()


@app.command()
def first(name: str = "", number: int = 1) -> None:
    """Do the first thing."""


@app.command()
def second(name: str = "", number: int = 1) -> None:
    """Do the second thing."""


@app.command()
def third(name: str = "", number: int = 1) -> None:
    """Do the third thing."""


app()
'''


def main() -> None:
    repeat = parse_repeat(__doc__, default=20)
    with tempfile.TemporaryDirectory() as folder:
        bare_app = Path(folder) / "bare_app.py"
        bare_app.write_text(BARE_APP)
        commands = [[sys.executable, "-m", "mhaviz", *words.split()] for words in TARGETS]
        *times, peer = time_commands([*commands, [sys.executable, str(bare_app), "--help"]], repeat)
    rows = zip(TARGETS.items(), times, strict=True)
    print_table(
        [Row(f"{words}; peer: a typer app of three commands", ours, peer, most) for (words, most), ours in rows]
    )


if __name__ == "__main__":
    main()

"""How long --help takes, beside the --help of a bare typer app of three commands.

Both are started with the interpreter that runs this script. What mhaviz adds to typer should be little: at most half
as much again, 1.5x.
"""

import sys
import tempfile
from pathlib import Path

from measure import Row, parse_repeat, print_table, time_commands

TARGET = 1.5

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
        commands = [[sys.executable, "-m", "mhaviz", "--help"], [sys.executable, str(bare_app), "--help"]]
        mhaviz, peer = time_commands(commands, repeat)
    print_table([Row("--help; peer: a typer app of three commands", mhaviz, peer, TARGET)])


if __name__ == "__main__":
    main()

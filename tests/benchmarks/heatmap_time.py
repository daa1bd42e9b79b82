"""How long a heatmap of ten words takes from the command line, beside importing torch and matplotlib.pyplot.

The command runs the layer with its default of 8 heads, writes a PNG and prints the terminal view too (here to nowhere).
Nobody who draws attention with these two libraries can be faster than their import. mhaviz may take 1.3x as long.
"""

import sys
import tempfile
from pathlib import Path

from measure import Row, parse_repeat, print_table, time_commands

TARGET = 1.3
SENTENCE = "one two three four five six seven eight nine ten"


def main() -> None:
    repeat = parse_repeat(__doc__, default=10)
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "X.png"
        commands = [
            [sys.executable, "-m", "mhaviz", "heatmap", SENTENCE, "-o", str(picture)],
            [sys.executable, "-c", "import torch, matplotlib.pyplot"],
        ]
        mhaviz, peer = time_commands(commands, repeat)
    print_table([Row("heatmap of ten words; peer: import torch, matplotlib.pyplot", mhaviz, peer, TARGET)])


if __name__ == "__main__":
    main()

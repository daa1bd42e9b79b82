"""Run the command line by ``python -m mhaviz``."""

import sys

from mhaviz.cli import run

if __name__ == "__main__":
    sys.exit(run())

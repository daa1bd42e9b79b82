"""python -m mhaviz"""

import sys

from mhaviz.cli import main

if __name__ == "__main__":
    sys.exit(main())

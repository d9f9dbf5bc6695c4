"""Entry point of ``python -m pytest_graphbreak``, which is the same as ``graphbreak``."""

import sys

from pytest_graphbreak.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.golden [NAME...]`` writes what users see anew, from the recorded reports.

``python -m tests.golden record [NAME...]`` first records the reports, with the torch,
torch_xla or jax that is installed; ``--out DIR`` records into another folder, and writes
nothing else. Read ``git diff tests/golden/data`` then.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.golden import record, replay
from tests.golden.situation import DATA, situations


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="[record] NAME")
    parser.add_argument("--out", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    wanted = arguments.names
    if wanted[:1] == ["record"]:
        wanted = record.record(wanted[1:], arguments.out or DATA)
        if arguments.out:
            return 0
    for one in situations():
        if not wanted or one.name in wanted:
            replay.write(one)
    return 0


if __name__ == "__main__":
    sys.exit(main())

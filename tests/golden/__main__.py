"""``python -m tests.golden [NAME...]`` writes what users see anew, from the recorded reports.

``python -m tests.golden record [NAME...]`` first records the reports, with the torch,
torch_xla or jax that is installed; ``--out DIR`` records into another folder, and writes
nothing else. Read ``git diff tests/golden/data`` then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.golden import record, replay
from tests.golden.situation import DATA, situations
from tests.golden.typed import SESSIONS

Outputs = Callable[[], dict[str, str]]
RECORDED: Final = ("before.json", record.SHOWN)
"""What only a real run writes."""


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
    for folder, outputs in everything():
        if not wanted or folder.name in wanted:
            _write(folder, outputs())
    return 0


def everything() -> list[tuple[Path, Outputs]]:
    """The folder of each situation, and what makes its outputs."""
    found: list[tuple[Path, Outputs]] = [
        (one.folder, partial(replay.outputs, one)) for one in situations()
    ]
    return found + [(session.folder, session.outputs) for session in SESSIONS]


def _write(folder: Path, found: dict[str, str]) -> None:
    """Write outputs into their folder; those that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in (*RECORDED, *found):
            path.unlink()
    for name, text in found.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())

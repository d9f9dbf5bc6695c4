"""What ``upgrade`` and ``bisect`` have in common: reports that are kept, words of others."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_graphbreak.cli.messages import complain


def add_reports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports", metavar="DIR", help="keep the reports of both sides: before.json, after.json"
    )


def keep(directory: str | None, before: Path, after: Path) -> bool:
    """Copy both reports to a directory, where one was named; False where that fails."""
    if directory is None:
        return True
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for name, path in (("before.json", before), ("after.json", after)):
            shutil.copyfile(path, Path(directory) / name)
    except OSError as error:
        complain(f"graphbreak: {directory}: cannot be written: {error.strerror or error}")
        return False
    return True


def repeated(command: str, message: str, words: Sequence[str]) -> None:
    """Say what went wrong, and below it what the program that failed has said."""
    complain(f"graphbreak {command}: {message}")
    for line in words:
        complain(f"    {line}")

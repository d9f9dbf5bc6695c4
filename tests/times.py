"""The table of CONTRIBUTING.md: ``python -m tests.times`` after whole runs of the halves.

Seconds of tests by folder and half, of two workers together, as pytest's own ``--junit-xml`` has
them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.__main__ import HALVES, ROOT, TIMES

PAGE: Final = ROOT / "CONTRIBUTING.md"
LEAST: Final = 30
"""Seconds that a folder takes in all halves at least, to have a row."""
_TABLE: Final = re.compile(r"(?<=<!-- times -->\n)(?:\|.*\n)*(?=<!-- /times -->)")


def seconds(file: Path) -> dict[str, float]:
    """Return the seconds of each folder of a junit file, by its first part below ``tests``."""
    total: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(file).iter("testcase"):
        parts = case.get("classname", "").split(".")
        folder = parts[1] if len(parts) > 2 else "tests"
        if folder == "layers" and len(parts) > 3:
            folder = f"layers/{parts[2]}"
        total[folder] += float(case.get("time", "0"))
    return total


def add_up(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of each folder over all parts."""
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for folder, took in part.items():
            total[folder] += took
    return total


def table(times: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of the table of ``times``: seconds by half and folder."""
    yield "| folder | " + " | ".join(times) + " |"
    yield "| --- |" + " ---: |" * len(times)
    sums = add_up(times.values())
    for folder in sorted(
        (name for name in sums if sums[name] >= LEAST), key=lambda name: -sums[name]
    ):
        cells = (f"{half[folder]:.0f}" if folder in half else "" for half in times.values())
        yield f"| {folder} | " + " | ".join(cells) + " |"
    yield "| all | " + " | ".join(f"{sum(half.values()):.0f}" for half in times.values()) + " |"


def main() -> None:
    times = {half: add_up(map(seconds, TIMES.glob(f"{half}-*.xml"))) for half in HALVES}
    lines = "\n".join(table(times))
    PAGE.write_text(_TABLE.sub(lambda _: f"{lines}\n", PAGE.read_text("utf-8")), "utf-8")
    print(lines)


if __name__ == "__main__":
    main()

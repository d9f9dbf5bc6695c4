"""The rooms of the package and the imports between them: ``python -m tests.rooms`` draws them.

A room is a folder or a module at the top of ``pytest_graphbreak``. Every import counts,
also one inside of a function and one for typing only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "pytest_graphbreak"
PICTURE: Final = ROOT / "docs" / "pictures" / "rooms.svg"
PUBLIC: Final = "public names"
"""What ``pytest_graphbreak`` itself is called: the names that other code imports."""

TOOLS: Final = ("cli", "repair", "logs", "artifacts")
"""The rooms that the gate needs nothing of."""

WIDTH: Final = 980
BOX: Final = (124, 34)
FLOOR: Final = 84
"""Pixels from one floor to the next."""
GAP: Final = 0.3
"""How much of a room's share of its floor an arrow takes that passes by."""

Arrows = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """The files of the package by their dotted names."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def arrows(root: Path = ROOT) -> Arrows:
    """What each room imports of the others; ``python -m`` is left out, which only starts one."""
    known = modules(root)
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        room = _room(name)
        if room == "__main__":
            continue
        used = found.setdefault(room, set())
        used |= {_room(other) for other in _imported(path, known)} - {room}
    return {room: frozenset(used) for room, used in found.items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else PUBLIC


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)


def circles(found: Arrows) -> list[str]:
    """The rooms that import themselves by way of others."""
    return sorted(room for room in found if room in _below(room, found))


def _below(room: str, found: Arrows) -> set[str]:
    seen: set[str] = set()
    left = [room]
    while left:
        new = found[left.pop()] - seen
        seen |= new
        left += new
    return seen


def reached(rooms: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """The modules that these rooms need, also by way of others, each with one that imports it."""
    known = modules(root)
    left = [name for name in known if _room(name) in rooms]
    found = dict.fromkeys(left, "")
    while left:
        name = left.pop()
        for other in _imported(known[name], known):
            if other not in found:
                found[other] = name
                left.append(other)
    return found


def floors(found: Arrows) -> list[list[str]]:
    """The rooms, the highest floor first: each is above all that it imports."""

    @cache
    def height(room: str) -> int:
        return 1 + max((height(other) for other in found[room]), default=-1)

    by_height: dict[int, list[str]] = {}
    for room in sorted(found):
        by_height.setdefault(height(room), []).append(room)
    return [by_height[number] for number in sorted(by_height, reverse=True)]


def needed(found: Arrows) -> list[tuple[str, str]]:
    """The arrows without those that follow from others: from ``a`` to ``c`` by way of ``b``."""
    return [
        (room, other)
        for room in sorted(found)
        for other in sorted(found[room])
        if not any(other in _below(between, found) for between in found[room] - {other})
    ]


def draw(found: Arrows) -> str:
    """The picture, as SVG: rooms on their floors, each arrow from one that imports another."""
    house, lines = floors(found), needed(found)
    ways = _ways(house, lines)
    places = _places(house, ways)
    height = FLOOR * len(house) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="15">',
        "<title>The rooms of pytest_graphbreak; each imports only what is below it</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    dashed = ' stroke-dasharray="5 3"'
    for way in ways:
        parts.append(
            f'<path d="{_curve([places[stop] for stop in way])}" fill="none" '
            'stroke="#57606a" stroke-width="1.2" marker-end="url(#head)"/>'
        )
    for floor in house:
        for room in floor:
            x, y = places[room]
            parts.append(
                f'<rect x="{x - BOX[0] // 2}" y="{y - BOX[1] // 2}" width="{BOX[0]}" '
                f'height="{BOX[1]}" rx="6" fill="#ddf4ff" stroke="#0969da"'
                f"{dashed if room in TOOLS else ''}/>"
            )
            parts.append(
                f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#1f2328">'
                f"{escape(room)}</text>"
            )
    return "\n".join((*parts, "</svg>", ""))


def _ways(house: list[list[str]], lines: list[tuple[str, str]]) -> list[list[str]]:
    """The stops of each arrow: the rooms at its ends, and a gap on each floor between them."""
    floor_of = {room: number for number, floor in enumerate(house) for room in floor}
    return [
        [room, *(f"{room}>{other}>{number}" for number in between), other]
        for room, other in lines
        for between in [range(floor_of[room] + 1, floor_of[other])]
    ]


def _places(house: list[list[str]], ways: list[list[str]]) -> dict[str, tuple[int, int]]:
    """The middle of each stop. A floor is ordered by where its arrows go, so that few cross."""
    order = [list(floor) for floor in house]
    ends: dict[str, list[str]] = {}
    for way in ways:
        for one, other in pairwise(way):
            ends.setdefault(one, []).append(other)
            ends.setdefault(other, []).append(one)
        for gap in way[1:-1]:
            order[int(gap.rpartition(">")[2])].append(gap)
    places: dict[str, tuple[int, int]] = {}
    for _ in range(8):
        for number, floor in enumerate(order):
            shares = [GAP if ">" in stop else 1.0 for stop in floor]
            left = 0.0
            for stop, share in zip(floor, shares, strict=True):
                middle = round(WIDTH * (left + share / 2) / sum(shares))
                places[stop] = (middle, FLOOR * number + FLOOR // 2 + 15)
                left += share
        pull = {
            stop: sum(places[end][0] for end in near) / len(near) for stop, near in ends.items()
        }
        for floor in order:
            floor.sort(key=lambda stop: (pull.get(stop, 0), stop))
    return places


def _curve(stops: list[tuple[int, int]]) -> str:
    """A path from below the first box to above the last one, upright at each stop between."""
    half = BOX[1] // 2
    points = [(stops[0][0], stops[0][1] + half)]
    for x, y in stops[1:-1]:
        points += [(x, y - half), (x, y + half)]
    points.append((stops[-1][0], stops[-1][1] - half - 2))
    words = f"M{points[0][0]} {points[0][1]}"
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        bend = (y2 - y1) // 2
        words += f"C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}" if number % 2 == 0 else f"V{y2}"
    return words


if __name__ == "__main__":
    PICTURE.write_text(draw(arrows()), encoding="utf-8")
    print(PICTURE)

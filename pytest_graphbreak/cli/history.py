"""``graphbreak history``: shows how the baselines changed in git, when, and by which commit."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.accept import pattern
from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.messages import listing, say, write
from pytest_graphbreak.config.checkout import find
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.report.comparison.words import KINDS
from pytest_graphbreak.report.frame import fill
from pytest_graphbreak.runs.history import Commit, History, Place, Point, Series, Shift, read
from pytest_graphbreak.text.output import plural
from pytest_graphbreak.text.safe import cut, printable

MOST: Final = 20
"""The number of tests that are listed for one commit; the page has all."""
CAUSES: Final = 5
"""The number of causes that are listed for one step of a test; the page has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="F", help="write a page with a plot of each test")
    parser.add_argument("--tests", metavar="PATTERN", help="only these tests, as in accept")
    parser.add_argument(
        "--by",
        choices=("test", "commit"),
        default="test",
        help="show each test with the commits that changed it, or each commit with its changes",
    )
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Print the history, or write it as a page. Returns 0, or 2 if git fails."""
    found = read(find(Path.cwd(), args.graph_budget_dir).directory)
    wanted = pattern(args.tests)
    found.series = [series for series in found.series if wanted(series.nodeid)]
    listing("unreadable", found.unreadable, 20)
    if found.shallow:
        say("This clone is shallow: older commits are missing (git fetch --unshallow).")
    if args.html:
        return 0 if write(args.html, render(found)) else 2
    for line in by_commit(found) if args.by == "commit" else lines(found):
        say(line)
    return 0


def lines(found: History) -> Iterator[str]:
    """Yield every test that changed; the latest are at the end, where a terminal shows them."""
    moved = [series for series in found.series if series.changes]
    for series in sorted(moved, key=lambda series: (series.points[-1].commit.time, series.nodeid)):
        yield f"{series.nodeid}   {series.profile}   {sparkline(series)}"
        for before, point in zip((None, *series.points), series.points, strict=False):
            commit = point.commit
            yield (
                f"  {commit.date}  {commit.hash[:10] or 'now':<10}  {_step(before, point):<24}"
                f"  {commit.subject}"
            )
            for shift in point.shifts[:CAUSES]:
                yield f"      {_cause(shift)}"
                yield f"          {_place(shift)}"
            if len(point.shifts) > CAUSES:
                yield f"      ... and {plural(len(point.shifts) - CAUSES, 'cause')} more"
        yield ""
    names = {series.nodeid for series in moved}
    still = {series.nodeid for series in found.series} - names
    yield f"{plural(len(names), 'test')} moved, {len(still):,} never did"


def by_commit(found: History) -> Iterator[str]:
    """Yield every commit that changed a test, the latest at the end, the largest growth first."""
    moves: dict[Commit, list[tuple[Series, Point, Point]]] = {one: [] for one in found.commits}
    recorded: dict[Commit, set[str]] = {one: set() for one in found.commits}
    for series in found.series:
        recorded[series.points[0].commit].add(series.nodeid)
        for before, point in zip(series.points, series.points[1:], strict=False):
            moves[point.commit].append((series, before, point))
    for commit, moved in moves.items():
        if not moved and not recorded[commit]:
            continue  # it changed only tests that --tests leaves out
        yield f"{commit.date}  {commit.hash[:10] or 'now':<10}  {commit.subject}"
        yield from _causes(point for _, _, point in moved)
        moved.sort(key=lambda one: (_size(one[1]) - _size(one[2]), -_grew(one[2]), one[0].nodeid))
        for series, before, point in moved[:MOST]:
            yield f"  {_step(before, point):<24}  {series.nodeid}   {series.profile}"
        if len(moved) > MOST:
            yield f"  ... and {len(moved) - MOST:,} more"
        if recorded[commit]:
            yield f"  {plural(len(recorded[commit]), 'test')} recorded"
        yield ""
    yield f"{plural(sum(map(bool, moves.values())), 'commit')} moved {_moved(found)}"


def _causes(points: Iterable[Point]) -> Iterator[str]:
    """Yield the causes that changed in one commit, with the number of tests; most tests first."""
    counted = Counter((_cause(shift), _place(shift)) for point in points for shift in point.shifts)
    for (cause, place), tests in counted.most_common(MOST):
        yield f"  {cause}   {plural(tests, 'test')}"
        yield f"      {place}"
    if len(counted) > MOST:
        yield f"  ... and {plural(len(counted) - MOST, 'cause')} more"


def _cause(shift: Shift) -> str:
    """Return a cause as text: ``+ GB0124  Unsupported Tensor.item() call``."""
    sign = "+" if shift.after > shift.before else "-"
    much = f" {shift.before} -> {shift.after}" if shift.before and shift.after else ""
    return f"{sign} {_name(shift.place, much)}"


def _name(place: Place, much: str = "") -> str:
    kind = "" if place.name and place.kind == "break" else KINDS.get(place.kind, place.kind)
    return cut("  ".join(part for part in (f"{kind}{much}", place.name) if part))


def _place(shift: Shift) -> str:
    """Return a place as text: ``yolo/head.py::Head.forward   if x.item():``."""
    return f"{shift.place.where}   {cut(shift.place.code)}"


def _moved(found: History) -> str:
    return plural(len({series.nodeid for series in found.series if series.changes}), "test")


def _size(point: Point) -> int:
    return max((point.graphs or {}).values(), default=0)


def _grew(point: Point) -> int:
    """Return the largest growth of what runs or is read."""
    return max((after - before for before, after in point.moved_runs.values()), default=0)


def _step(before: Point | None, point: Point) -> str:
    if point.graphs is None:
        return "gone"
    old = (before.graphs if before is not None else None) or {}
    parts = [
        f"{layer} {old[layer]} -> {point.graphs.get(layer, 0)}"
        if old.get(layer) and old[layer] != point.graphs.get(layer, 0)
        else f"{layer} {point.graphs.get(layer, 0)}"
        for layer in LAYERS
        if old.get(layer) or point.graphs.get(layer)
    ]
    parts = parts or ["no graphs"]
    parts += [
        f"{layer} {what} {was} -> {now}" for (what, layer), (was, now) in point.moved_runs.items()
    ]
    return ", ".join(parts)


def sparkline(series: Series) -> str:
    """Return one character for the largest count of each point.

    The counts are graphs, or what ran if only that changed.
    """
    graphs = [_size(point) for point in series.points]
    ran = [max((now for _, now in point.ran.values()), default=0) for point in series.points]
    sizes = max(graphs, ran, key=lambda some: len(set(some)) > 1)
    top = max(sizes) or 1
    return "".join("▁▂▃▄▅▆▇█"[round(size / top * 7)] for size in sizes)


# The history of baselines as one page: a small plot for each test, or the commits with the tests
# that they changed.

_Places = dict[tuple[Place, str], int]
"""Causes and their numbers. A newer torch may name the same place differently."""


def render(found: History) -> str:
    """Return the page."""
    return fill("history", "Graph budget history", page_data(found))


def page_data(found: History) -> Plain:
    """Return the data of the page: commits once, in branch order, with points referring to them."""
    wanted = {point.commit for one in found.series for point in one.points}
    commits = [commit for commit in found.commits if commit in wanted]
    numbers = {commit: number for number, commit in enumerate(commits)}
    places: _Places = {}
    return {
        "layers": list(LAYERS),
        "shallow": found.shallow,
        "address": found.address,
        "series": [_series(one, numbers, places) for one in found.series],
        "commits": [
            {
                "hash": commit.hash[:10],
                "date": commit.date,
                "author": printable(commit.author),
                "subject": printable(commit.subject),
                "full": commit.hash,
            }
            for commit in commits
        ],
        "places": [
            {
                "name": printable(_name(place)),
                "where": printable(place.where),
                "code": printable(cut(place.code)),
            }
            for place, _ in places
        ],
    }


def _series(one: Series, numbers: dict[Commit, int], places: _Places) -> Plain:
    """Return a test. Commits and causes are given by number, since many steps share them."""
    return {
        "id": printable(one.nodeid),
        "profile": printable(one.profile),
        "points": [
            {
                "commit": numbers[point.commit],
                "graphs": None if point.graphs is None else dict(point.graphs),
                "shifts": [
                    {
                        "place": places.setdefault((shift.place, shift.place.name), len(places)),
                        "was": shift.before,
                        "now": shift.after,
                    }
                    for shift in point.shifts
                ],
                "ran": [
                    {"what": what, "layer": layer, "was": before, "now": after}
                    for (what, layer), (before, after) in point.ran.items()
                ],
            }
            for point in one.points
        ],
    }

"""The history of baselines as one page: each test as a small plot, or each commit with
the tests that it moved."""

from __future__ import annotations

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.report.comparison.words import KINDS
from pytest_graphbreak.report.frame import fill
from pytest_graphbreak.runs.history import Commit, History, Place, Series
from pytest_graphbreak.text.safe import cut, printable

_Places = dict[tuple[Place, str], int]
"""Causes by number. A newer torch may name one place differently."""


def render(found: History) -> str:
    """The page."""
    return fill("history", "Graph budget history", page_data(found))


def page_data(found: History) -> Plain:
    """Commits once, in the order of the branch; the points of each test name them by number."""
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
            [
                commit.hash[:10],
                commit.date,
                printable(commit.author),
                printable(commit.subject),
                commit.hash,
            ]
            for commit in commits
        ],
        "places": [_place(place) for place, _ in places],
    }


def _number(place: Place, places: _Places) -> int:
    return places.setdefault((place, place.name), len(places))


def _place(place: Place) -> list[str]:
    """What is said of a cause, its place, and the line."""
    kind = "" if place.name and place.kind == "break" else KINDS.get(place.kind, place.kind)
    name = "  ".join(part for part in (kind, place.name) if part)
    return [printable(cut(name)), printable(place.where), printable(cut(place.code))]


def _series(one: Series, numbers: dict[Commit, int], places: _Places) -> Plain:
    """A test. Causes that many steps have in common are named by number, too; so are layers."""
    return {
        "id": printable(one.nodeid),
        "profile": printable(one.profile),
        "points": [
            [
                numbers[point.commit],
                None if point.graphs is None else [point.graphs.get(layer, 0) for layer in LAYERS],
                [
                    [_number(shift.place, places), shift.before, shift.after]
                    for shift in point.shifts
                ],
                [
                    [what, LAYERS.index(layer), before, after]
                    for (what, layer), (before, after) in point.ran.items()
                ],
            ]
            for point in one.points
        ],
    }

"""The history of baselines as one page: a small plot of each test, over one common time."""

from __future__ import annotations

from pytest_graphbreak.history import Commit, History, Series
from pytest_graphbreak.record import LAYERS, Plain
from pytest_graphbreak.report.html import fill
from pytest_graphbreak.report.safe import printable


def render(found: History) -> str:
    """The page."""
    return fill("history", "Graph budget history", page_data(found))


def page_data(found: History) -> Plain:
    """Commits once, and for each test the points that name them by number."""
    commits: dict[Commit, int] = {}
    series = [_series(one, commits) for one in found.series]
    return {
        "layers": list(LAYERS),
        "shallow": found.shallow,
        "series": series,
        "commits": [
            [commit.hash[:10], commit.time, printable(commit.author), printable(commit.subject)]
            for commit in commits
        ],
    }


def _series(one: Series, commits: dict[Commit, int]) -> Plain:
    return {
        "id": printable(one.nodeid),
        "profile": printable(one.profile),
        "points": [
            [
                commits.setdefault(point.commit, len(commits)),
                None if point.graphs is None else [point.graphs.get(layer, 0) for layer in LAYERS],
            ]
            for point in one.points
        ],
    }

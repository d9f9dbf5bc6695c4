"""The history of baselines as one page: each test as a small plot, or each commit with
the tests that it moved."""

from __future__ import annotations

from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Plain
from pytest_graphbreak.report.html import fill
from pytest_graphbreak.runs.history import Commit, History, Series
from pytest_graphbreak.text.safe import printable


def render(found: History) -> str:
    """The page."""
    return fill("history", "Graph budget history", page_data(found))


def page_data(found: History) -> Plain:
    """Commits once, in the order of the branch; the points of each test name them by number."""
    wanted = {point.commit for one in found.series for point in one.points}
    commits = [commit for commit in found.commits if commit in wanted]
    numbers = {commit: number for number, commit in enumerate(commits)}
    return {
        "layers": list(LAYERS),
        "shallow": found.shallow,
        "series": [_series(one, numbers) for one in found.series],
        "commits": [
            [commit.hash[:10], commit.date, printable(commit.author), printable(commit.subject)]
            for commit in commits
        ],
    }


def _series(one: Series, numbers: dict[Commit, int]) -> Plain:
    return {
        "id": printable(one.nodeid),
        "profile": printable(one.profile),
        "points": [
            [
                numbers[point.commit],
                None if point.graphs is None else [point.graphs.get(layer, 0) for layer in LAYERS],
            ]
            for point in one.points
        ],
    }

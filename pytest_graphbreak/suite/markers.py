"""The markers of a test: its cap, and whether it is judged, isolated and may fail.

    @pytest.mark.max_graphs(1, xla=2)          a ``Cap`` (``marked_cap``)
    @pytest.mark.graph_budget(gate=False)      a ``GraphBudgetMark`` (``marked_budget``)
    @pytest.mark.xfail                         whether a new test may fail (``is_xfail``)

A marker that is wrong fails its test in the call, with one line. ``is_limited`` and ``is_counted``
ask less, so they also hold for a wrong one: they say whether a test is measured at all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from msgspec import Struct

if TYPE_CHECKING:
    from pytest_graphbreak.model.budget import Cap


class GraphBudgetMark(Struct, frozen=True):
    """The arguments of ``@pytest.mark.graph_budget``: judged or not, isolated or not."""

    gate: bool = True
    isolate: bool = True
    reason: str = ""


def canonical(item: pytest.Item) -> str:
    """Return the node id without ``@group``, which xdist's loadgroup appends (until pytest 9.1)."""
    for mark in item.iter_markers("xdist_group"):
        name = mark.args[0] if mark.args else mark.kwargs.get("name", "default")
        if item.nodeid.endswith(f"@{name}"):
            return item.nodeid.removesuffix(f"@{name}")
    return item.nodeid


def is_limited(item: pytest.Item) -> bool:
    """Return whether a test has limits of its own: a cap, valid or not, or blocks."""
    if item.get_closest_marker("max_graphs") is not None or _asks_for(item, "graph_budget"):
        return True
    mark = item.get_closest_marker("graph_budget")
    # A limit in ``graph_budget`` is a mistake, which fails the test (``_wrong``).
    return mark is not None and bool(mark.args or {*mark.kwargs} - {*_KINDS})


def is_counted(item: pytest.Item) -> bool:
    """Return whether graphs of a test are counted without any option."""
    return is_limited(item) or _asks_for(item, "compile_model")


def _asks_for(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


def marked_cap(item: pytest.Item) -> Cap | None:
    """Return the cap of the closest ``max_graphs`` marker; an invalid one fails the test."""
    mark = item.get_closest_marker("max_graphs")
    if mark is None:
        return None
    from pytest_graphbreak.judging import cap as caps

    try:
        return caps.parse(mark.args, mark.kwargs, "@pytest.mark.max_graphs")
    except caps.CapError as error:
        wrong = str(error)
    # Outside the handler, so that the user sees only the message.
    pytest.fail(wrong, pytrace=False)


def marked_budget(item: pytest.Item) -> GraphBudgetMark:
    """Return the closest ``graph_budget`` marker; an invalid one fails the test."""
    mark = item.get_closest_marker("graph_budget")
    if mark is None:
        return GraphBudgetMark()
    if wrong := _wrong(mark):
        pytest.fail(f"@pytest.mark.graph_budget: {wrong}", pytrace=False)
    return GraphBudgetMark(**mark.kwargs)


_KINDS: Final = {"gate": bool, "isolate": bool, "reason": str}
"""The keywords of ``graph_budget`` with their types."""


def _wrong(mark: pytest.Mark) -> str:
    """Return what is wrong in a ``graph_budget`` marker, and what to write; empty if nothing is.

    Of ``graph_budget(max_graphs=1)``: ``limits are set by @pytest.mark.max_graphs(1)``.
    """
    from pytest_graphbreak.judging import cap as caps

    allowed = "allowed: graph_budget(gate=False, isolate=False, reason='...')"
    limits = {key: value for key, value in mark.kwargs.items() if key not in _KINDS}
    numbers = (*mark.args, *((limits.pop("max_graphs"),) if "max_graphs" in limits else ()))
    if numbers or limits:
        with suppress(caps.CapError):
            caps.parse(numbers, limits)
            words = (*map(repr, numbers), *(f"{key}={value!r}" for key, value in limits.items()))
            return f"limits are set by @pytest.mark.max_graphs({', '.join(words)})"
    if mark.args or not mark.kwargs:
        return f"takes names only; {allowed}"
    for key, value in mark.kwargs.items():
        if not isinstance(value, _KINDS.get(key, ())):
            return f"{key}={value!r} is not known; {allowed}"
    return ""


def is_isolated(item: pytest.Item) -> bool:
    """Return what the marker says of isolation; an invalid marker fails the test in its call."""
    try:
        return marked_budget(item).isolate
    except pytest.fail.Exception:
        return True


def is_xfail(item: pytest.Item) -> bool:
    """Return whether an xfail marker applies, so that a new test is reported and not failed.

    A condition that is a string is not evaluated and counts as false; then the test is judged.
    """
    if item.config.getoption("runxfail", default=False):
        return False
    for mark in item.iter_markers("xfail"):
        conditions = [*mark.args]
        if "condition" in mark.kwargs:
            conditions.append(mark.kwargs["condition"])
        holds = any(condition for condition in conditions if not isinstance(condition, str))
        if holds or not conditions:
            return True
    return False

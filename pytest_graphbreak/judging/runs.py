"""Finds the lines that ran graphs or read values too often.

``difference`` calls ``add_runs`` with the ``Sides`` of its comparison: the baseline is ``before``,
the record ``after``, and ``totals`` has the numbers of executions and reads that grew. Which lines
made them is worked out here: of a device layer a baseline names the lines, of Dynamo it names none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_graphbreak.judging.sides import Sides
from pytest_graphbreak.model.budget import PLACES_LAYER, writable
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import LineRuns


def add_runs(sides: Sides) -> None:
    """Add the lines that ran graphs or read values too often, those with most first.

    What has no line, such as an operation of a backward pass that runs on the host, comes last.

    A baseline knows the lines of a device layer that did so before: they are left out. If a layer
    has more graphs or breaks, those are reported instead.
    """
    grown = sides.grown("graph", "break")
    for total in sides.totals:
        if total.kind not in ("execution", "read") or total.growth <= 0:
            continue
        if total.layer in grown or None in grown:  # None: the total of breaks has no layer
            continue
        after = sides.after
        items = after.execution_list if total.kind == "execution" else after.read_list
        lines = [line for line in items if line.layer == total.layer]
        recorded = _known_lines(total, lines, sides)
        remaining = total.growth
        for line in sorted(lines, key=lambda line: (not line.where.file, -line.count)):
            was = _count_before(line, total, recorded, remaining)
            remaining -= line.count - (was or 0)
            if was is None or line.count > was:
                sides.add(total.kind, (line,), was, line.count, cause=line.cause)


def _count_before(
    line: LineRuns, total: Difference, recorded: Mapping[str, int], remaining: int
) -> int | None:
    """Return how often a line ran or read before. ``recorded`` are the lines of the baseline::

        0               the baseline has no run or read at all
        None            not known: the limit is a cap's, or the baseline names no lines
        what is left    a line without a place, which no baseline names
        recorded, or 0  any other line

    ``remaining`` is the growth that the lines so far leave over. If reads grew by 4, of which
    another line made 3, and a line without a place read 5 times, it read 4 times before.
    """
    if total.by == "baseline" and not total.before:
        return 0
    if not recorded:
        return None
    if not line.where.file:
        return max(line.count - max(remaining, 0), 0)
    return recorded.get(writable(line.line), 0)


def _known_lines(total: Difference, lines: Sequence[LineRuns], sides: Sides) -> Mapping[str, int]:
    """Return the counts of lines that a baseline knows; none where the total is above a cap.

    A baseline does not name lines that call Dynamo's graphs. If only one line ran or read now, it
    is taken to be the one that did so before, with the recorded total.
    """
    if sides.before is None or total.by != "baseline":
        return {}
    recorded = {} if total.layer == PLACES_LAYER else sides.before.values.lines
    if recorded or len(lines) != 1:
        return recorded
    return {writable(lines[0].line): total.before or 0}

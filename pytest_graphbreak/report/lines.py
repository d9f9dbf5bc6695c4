"""Findings as lines: what, where, what to write instead, what led there, what follows from it.

Every report that shows text shows findings by these lines; the ``Finding`` has the words already::

    + GB0124  Unsupported Tensor.item() call              its sign, id and words
          yolo/head.py:11 in Head.forward                 at: a place, and below it its source line
              if scores.max().item() > 0.9:
          fix: torch.where(condition, a, b)               to_try
          from tests/test_yolo.py:8 in test_yolo          calls
          and because of it:                              consequences
            yolo/neck.py:4 in Neck.forward is compiled again (3/1)

Below are the parts that other texts share: places, source lines, and the settings of torch
(``measured_with``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.judging.finding import GONE, Finding
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import noun, plural
from pytest_graphbreak.text.output import TextLine, indent_lines, sign_line
from pytest_graphbreak.text.safe import cut

MOST_PLACES: Final = 12
"""The number of places that are shown in full of one test that failed; the rest are counted."""
NEAR: Final = 2
"""The number of calls above a place that are always shown."""
FAR: Final = 3
"""The number of outermost calls that are always shown: the test's own lines, and its helpers'."""
DEPTH: Final = 6
"""Columns before the lines below the first line of a finding."""
MOST_FUNCTIONS: Final = 8
"""The number of functions that are named with one that is compiled again."""
_COUNTED: Final = 5
"""Columns by which lines below a count are deeper than those below a sign."""

KINDS: Final = {
    "break": "graph break",
    "eager": "runs eagerly",
    "other": "cut by torch_xla",
}
"""The names of kinds of findings; other kinds are called by their own name."""


def lines(finding: Finding) -> list[TextLine]:
    """Return the lines of a finding after its sign: ``+`` new, ``-`` gone, ``~`` reworded."""
    head = sign_line(finding.sign, finding.words, f"{finding.id}  " if finding.id else "")
    return [head, *_body(finding, finding.count)]


def general_lines(finding: Finding) -> list[TextLine]:
    """Return the lines of a finding of several tests, without what is specific to one of them."""
    return [replace(line, text=cut(line.text)) for line in lines(finding.generalize())]


def counted_lines(finding: Finding, *, with_owner: bool = False, after: str = "") -> list[TextLine]:
    """Return the lines of a finding after its number and time; with ``with_owner``, with its model.

    ``after`` ends the first line.
    """
    identity = f"{finding.id}  " if finding.id else ""
    kind = KINDS.get(finding.kind, finding.kind)
    words = f"{kind}  {identity}{cut(finding.reason)}".rstrip()
    owner = [detail(f"in {finding.owner}")] if with_owner and finding.owner else []
    body = [replace(line, text=cut(line.text)) for line in [*_body(finding), *owner]]
    head = count_line(finding.count, f"{words}{after}", None if after else finding.seconds)
    return [head, *indent_lines(body, _COUNTED)]


def count_line(count: int, text: str, took: float | None = None) -> TextLine:
    """Return a line with a count, the time taken, and a text."""
    time = "" if took is None else f"{took:.1f} s  "
    return TextLine(text, indent=4, head=f"{count:>4}x  {time}")


def _body(finding: Finding, times: int = 1) -> Iterator[TextLine]:
    """Yield the lines below the first one; ``times`` is how often its first place was reached."""
    if finding.circumstances:
        yield detail(finding.circumstances)
    yield from map(detail, finding.notes)
    for words, where in finding.places:
        if words:
            yield detail(f"{words} {position(where)}")
            yield from code(where)
        else:
            yield from at(where, times)
        times = 1  # the other places do not say how often
    yield from to_try(*finding.fix)
    yield from calls(finding.calls)
    yield from consequences(finding)


# The consequences of a finding, each on one line and without advice.


def consequences(finding: Finding) -> Iterator[TextLine]:
    """Yield what follows from a finding, below its calls."""
    words: list[str] = []
    if finding.is_of(Break):
        words += _break_consequences(finding)
    elif finding.is_of(Recompile) or finding.sign == GONE:
        yield from _followers(finding)
        others = finding.consequences(Graph)
        words += [_graph_more(graph) for graph in others if graph.layer != finding.layer]
    if words:
        yield detail("and because of it:")
        yield from (detail(text, 2) for text in words)


def _break_consequences(finding: Finding) -> Iterator[str]:
    breaks = finding.consequences(Break)
    for follower in breaks:
        name = f"{follower.id}  " if follower.id else ""
        yield f"{position(follower.where)} breaks, too: {name}{follower.reason}"
    breaking = {follower.where.key for follower in breaks}
    for eager in finding.consequences(Eager):
        if eager.where.key not in breaking:
            yield f"{position(eager.where)} runs without the compiler"
    for where, numbers, why in _recompiled_functions(finding.consequences(Recompile)):
        yield f"{position(where)} is compiled again ({numbers}){why}"
    for graph in finding.consequences(Graph):
        # A function that is now compiled by itself follows from the break and needs no line.
        if graph.layer and DESCRIPTIONS[graph.layer].cause(graph.kind).falls_with:
            yield _graph_more(graph)


def _graph_more(graph: Finding) -> str:
    return f"{position(graph.where)} is a graph more: {graph.reason or graph.kind}"


def _recompiled_functions(recompiles: Sequence[Finding]) -> Iterator[tuple[Frame, str, str]]:
    """Yield each recompiled function, how often, and the reason if there is only one.

    How often is the name of the one recompiled graph or the names of some, ``once`` or ``2 times``.
    A function that is recompiled only with its caller has no reason of its own.
    """
    functions: dict[tuple[str, ...], list[Finding]] = {}
    followers = [
        follower for recompile in recompiles for follower in recompile.consequences(Recompile)
    ]
    for recompile in (*recompiles, *followers):
        functions.setdefault(recompile.where.function_key, []).append(recompile)
    for same in functions.values():
        first = same[0]
        graphs = [name for recompile in same for name in recompile.recompiled_graphs]
        follows = all(recompile in followers for recompile in same)
        numbers = "once" if len(graphs) == 1 else f"{len(graphs)} times"
        if len(same) == 1 and not follows:
            numbers = first.names_of_recompiled
        yield first.where, numbers, "" if follows or len(same) > 1 else f": {first.reason}"


def _followers(finding: Finding) -> Iterator[TextLine]:
    """Yield the functions that are recompiled with their caller."""
    followers = finding.consequences(Recompile)
    if followers:
        yield detail(f"and recompiled with its caller, since {finding.new_condition}:")
    for follower in followers[:MOST_FUNCTIONS]:
        graphs = follower.recompiled_graphs
        names = (*graphs[:3], "...") if graphs[3:] else graphs
        yield detail(f"{position(follower.where)}   {', '.join(names)}", 2)
    if len(followers) > MOST_FUNCTIONS:
        yield detail(f"... and {plural(len(followers) - MOST_FUNCTIONS, 'more function')}", 2)


# Parts of a finding.


def detail(text: str, deeper: int = 0) -> TextLine:
    """Return a line below the first one of a finding."""
    return TextLine(text, indent=DEPTH + deeper)


def at(where: Frame, times: int = 1) -> list[TextLine]:
    """Return a place, how often it was reached, and its source line; nothing for no place."""
    if not where.file:
        return []
    words = f"{position(where)}   {times:,} times" if times > 1 else position(where)
    return [TextLine(words, "place", DEPTH), *code(where)]


def position(frame: Frame) -> str:
    """Return a position in words: ``file:line in function``."""
    line = f":{frame.line}" if frame.line else ""
    function = f" in {frame.function}" if frame.function else ""
    return f"{frame.file}{line}{function}"


def code(frame: Frame, indent: int = DEPTH + 4) -> list[TextLine]:
    """Return the source line of a place, if it is known."""
    return [TextLine(frame.code, "source", indent)] if frame.code else []


def calls(callers: Sequence[Frame]) -> Iterator[TextLine]:
    """Yield the calls that lead to a place: the nearest first, and the outermost.

    Of eight calls, two are shown, then ``... 3 calls between``, and then three.
    """
    # What starts a child process is no call of the user's: ``python -c`` of multiprocessing.
    callers = [frame for frame in callers if frame.file != "<string>"]
    between = max(len(callers) - NEAR - FAR, 0)
    for number, frame in enumerate(reversed(callers)):
        if number == NEAR and between:
            yield detail(f"... {between} {noun(between, 'call')} between")
        if not NEAR <= number < NEAR + between:
            yield TextLine(f"from {position(frame)}", "call", DEPTH)


def to_try(*advice: str) -> list[TextLine]:
    """Return what to write instead, as far as that is known."""
    return [TextLine(words, "advice", DEPTH, "fix: ") for words in advice if words]


# The settings of torch during a measurement, as far as they change its graphs.

DYNAMO: Final = "torch._dynamo.config."
"""The module of most settings; it is left out of their names."""
INDUCTOR: Final = "torch._inductor.config."
"""Settings that change how graphs are compiled further, but not which graphs there are."""


def measured_with(record: Record) -> Iterator[TextLine]:
    """Yield a line for each setting: `` settings measured with capture_scalar_outputs = True``.

    Settings that the library of a layer sets on import are left out, since nobody chose them.
    """
    usual = {item for layer in record.layers for item in DESCRIPTIONS[layer].sets}
    chosen = [
        setting_words(name, value)
        for name, value in record.settings.items()
        if not name.startswith(INDUCTOR) and (name, value) not in usual
    ]
    for number, words in enumerate(chosen):
        label, verb = ("settings", "measured with") if number == 0 else ("", "and")
        yield TextLine(f"{verb} {words}", indent=2, head=f"{label:<8}  ")


def setting_words(name: str, value: Any) -> str:
    """Return a setting with its value: ``capture_scalar_outputs = True``."""
    return f"{name.removeprefix(DYNAMO)} = {value}"

"""Writes scripts that show where torch_xla cuts the graph of a lazy program.

No function can be taken out of such a program, since a graph holds all that was computed before the
line that ends it. So a script runs the program until that line has made the graphs that it made
before, and counts them by torch_xla's own metric, without this package.

``repro.Repro`` asks for the ``cuts`` of a record, the text of a script for each (``script``), and
whether the run of it shows the cut (``missing``). ``writing.Writer`` has the parts that scripts for
breaks have as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.items import Break, Graph
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.repair.writing import WHOLE, Writer, indent, literal
from pytest_graphbreak.text.numbers import plural

XLA: Final = "xla"
"""The layer, as records name it."""
CAUSES: Final = ("sync", "access", "recompile")
"""The causes of graphs that a line of a lazy program ends.

A line ends the graph by ``torch_xla.sync()``, or by access to a value, as ``y.item()`` does. The
cause is ``recompile`` if the line has ended such a graph before.
"""

TEST: Final = "test_no_cut"
"""The name of a script that is a test."""

_COUNT: Final = '''
def compiled():
    """Return how many graphs torch_xla has compiled so far, by its own metric."""
    metrics = sys.modules.get("torch_xla.debug.metrics")  # the program imports it
    return (metrics and metrics.metric_data("CompileTime") or (0,))[0]
'''
_LINE: Final = '''
FILES = ({files})  # where the program makes graphs
PLACE, FUNCTION = {place}, {function}
SOURCE = {source}


class Enough(BaseException):
    """Raised when the line has made as many graphs as it made when this script was written."""


class Line:
    """Counts the graphs that are compiled while the program is at this line."""

    def __init__(self):
        self.graphs, self.before, self.is_here = 0, 0, False

    def __call__(self, frame, event, argument):
        """Handle what ``sys.settrace`` calls it for: a call, the next line, a return."""
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        now = compiled()
        self.graphs += (now - self.before) * self.is_here
        self.before = now
        if self.graphs >= {graphs}:
            raise Enough
        if event == "return":
            frame = frame.f_back
        while frame and not frame.f_code.co_filename.endswith(FILES):
            frame = frame.f_back
        self.is_here = frame is not None and self.is_line(frame.f_code, frame.f_lineno)
        return self

    def is_line(self, code, number):
        names = (FUNCTION, "<listcomp>", "<setcomp>", "<dictcomp>")  # of Python 3.10 and 3.11
        source = linecache.getline(code.co_filename, number).strip()
        return code.co_name in names and source == SOURCE
'''
"""What counts in a script.

At each event, the graphs since the event before are those of the line where the program was then
(``is_here``). Where it is from now on is the innermost frame of ``FILES``: a return leads to the
caller, and a call in another file, such as torch's, is still the line of the program that called.
"""


class LazyCut(Struct, frozen=True):
    """The graphs of one cause that end at one line; that is ``item``, in the form of a break.

    ``graphs`` are all that end there, of any cause; ``most`` is how many of them need not go: of
    graphs that are compiled again those before them, else none. Of a line with 1 ``sync`` and 2
    ``recompile``, the cut of ``recompile`` has 3 ``graphs`` and ``most`` 1: its script passes if
    the line makes 1 graph at most. The cut of ``sync`` has 3 and 0.
    """

    item: Break
    graphs: int
    most: int


def cuts(record: Record) -> list[LazyCut]:
    """Return what scripts are written for, in the order in which it came.

    Graphs of ``torch.compile`` are left out, lines that are graph breaks, and graphs of which
    torch_xla does not say at which line they end. In a program of one graph nothing was cut, since
    that has to end somewhere.
    """
    if record.graphs.get(XLA, 0) < 2:
        return []
    broken = {item.where.key for item in record.breaks}
    of_cause: dict[tuple[str, ...], list[Graph]] = {}
    for graph in record.graph_list:
        by_compile = bool(graph.sources)
        is_lazy = graph.layer == XLA and graph.cause in CAUSES and not by_compile
        if is_lazy and graph.where.file and graph.where.key not in broken:
            of_cause.setdefault((graph.cause, *graph.where.key), []).append(graph)
    of_line = Counter(graph.where.key for graph in record.graph_list if graph.layer == XLA)
    return [_cut(graphs, of_line[graphs[0].where.key]) for graphs in of_cause.values()]


def _cut(graphs: list[Graph], of_line: int) -> LazyCut:
    """Return the cut of graphs of one cause, at a line that ends ``of_line`` graphs in all."""
    first, count = graphs[0], len(graphs)
    reason = f"{first.cause}: {first.reason}" if first.reason else first.cause
    most = of_line - count if first.cause == "recompile" else 0
    return LazyCut(Break(XLA, reason, first.where, count=count), of_line, most)


def script(writer: Writer, cut: LazyCut, record: Record) -> str:
    """Return a script that runs the program, and fails while it makes the graphs of a cut."""
    body = [*writer.namespace(), *_run(indent(writer.lines()), cut)]
    text = "\n".join(body)
    imports = [f"import {name}" for name in ("contextlib", "linecache", "sys", "types")]
    imports += ["from pathlib import Path"] if "Path(" in text else []
    imports += ["", "import pytest"] if "pytest." in text else []
    name, item = TEST if writer.as_test else "main", cut.item
    reason = f"{item.reason}, {plural(item.count, 'graph')}"
    end = f"{'Under pytest it' if writer.as_test else 'It'} fails as long as the cut is there."
    parts = [
        "\n".join([*writer.header(WHOLE, reason, item.where, end), "", *imports]),
        _line(cut, record),
        _COUNT.strip("\n"),
        "\n".join([f"def {name}():", *indent(body)]),
        *([] if writer.as_test else ['if __name__ == "__main__":\n    main()']),
    ]
    return "\n\n\n".join(parts) + "\n"


def _line(cut: LazyCut, record: Record) -> str:
    """Return the source of ``Line`` for the line of a cut."""
    where = cut.item.where
    places = {graph.where.file for graph in record.graph_list if graph.layer == XLA}
    return _LINE.format(
        files="".join(f"{literal(f'/{file}')}, " for file in sorted(places - {""})).rstrip(),
        place=literal(f"{where.file}:{where.line}"),
        function=literal(where.function.rpartition(".")[2]),
        source=literal(where.code),
        graphs=cut.graphs,
    ).strip("\n")


def _run(run: list[str], cut: LazyCut) -> Iterator[str]:
    """Yield the lines that run the program until the line has made its graphs."""
    yield from ("line, trace = Line(), sys.gettrace()", "sys.settrace(line)", "try:")
    yield "    with contextlib.suppress(Enough, SystemExit):"
    yield from indent(run)
    yield from ("finally:", "    sys.settrace(trace)")
    words = _words("{PLACE}", "{line.graphs}")
    yield f'assert line.graphs {f"<= {cut.most}" if cut.most else "== 0"}, f"{words}"'


def _words(place: str, graphs: object) -> str:
    """Return what the assertion of a script says, by which ``missing`` knows it."""
    return f"graphs that end at {place}: {graphs}, by CompileTime of torch_xla"


def missing(cut: LazyCut, trial: Trial) -> str | None:
    """Return why the run of a script does not show its cut, or None if it does."""
    where = cut.item.where
    if trial.error == f"AssertionError: {_words(f'{where.file}:{where.line}', cut.graphs)}":
        return None
    return f"it fails: {trial.error[:160]}" if trial.error else "no graph ended there"

"""Who counts right, who says why, who names the line, and at what cost.

    python -m benchmarks.peers [--rounds 7] [--tlparse PATH] [--every 8]

The same functions go through each tool in one process: the cases of
``cases/dynamo.py``, whose true counts were found by an oracle of their
own. A tool counts graphs right where its number of graphs is the true one, and breaks
where its number is that of the true events or places. The cost is CPU time of
every eighth case, the tools in turns, as a ratio to nobody watching in the same
round; tlparse costs what its trace costs, and what reading it takes is beside it.

A second table has the "divide by seven" rule on logs as the TT plugin prints
them, with true counts, and in an environment with torch_xla a third has its
metrics read by hand.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LINE: Final = re.compile(r'\.py:\d+|\.py", line \d+')
GREP: Final = re.compile(r"Graph break in user code at|Graph break: skip: from user code at")


@dataclass
class Answer:
    """What a tool said of one case; None where it does not say."""

    graphs: int | None = None
    breaks: int | None = None
    why: bool | None = None
    line: bool | None = None


@dataclass
class Tool:
    """``run`` sends a case through the tool and gives back what it said."""

    name: str
    run: Callable[[Any], Answer]
    answers: dict[str, Answer] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def _reset() -> None:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def _eager(function: Any, **options: Any) -> Any:
    import torch

    return torch.compile(function, backend="eager", **options)


def nobody(case: Any) -> Answer:
    case.run(_eager)
    return Answer()


def plugin(case: Any) -> Answer:
    from pytest_graphbreak import observe

    with observe() as seen:
        case.run(_eager)
    record = seen.record
    found = [item for item in record.breaks if item.layer == "dynamo"]
    return Answer(
        graphs=record.graphs.get("dynamo", 0),
        breaks=sum(item.count for item in found),
        why=all(item.reason for item in found),
        line=all(item.where.line for item in found),
    )


class _Explained:
    """Stands where a compiled function would: explains its first call, and runs it.

    What is compiled inside of something that is being explained is explained with it.
    """

    busy = False

    def __init__(self, function: Any, into: list[Any]) -> None:
        self._function, self._into, self._first = function, into, True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._first and not _Explained.busy:
            self._explain(args, kwargs)
        return self._function(*args, **kwargs)

    def _explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch._dynamo

        self._first, _Explained.busy = False, True
        try:
            self._into.append(torch._dynamo.explain(self._function)(*args, **kwargs))
        finally:
            _Explained.busy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def explain(case: Any) -> Answer:
    found: list[Any] = []

    def compile(function: Any = None, **options: Any) -> Any:
        return _Explained(function, found)

    case.run(compile)
    reasons = [reason for item in found for reason in item.break_reasons]
    return Answer(
        graphs=sum(item.graph_count for item in found),
        breaks=sum(item.graph_break_count for item in found),
        why=all(reason.reason for reason in reasons) and bool(reasons),
        line=all(reason.user_stack for reason in reasons) and bool(reasons),
    )


def compile_counter(case: Any) -> Answer:
    import torch
    from torch._dynamo.testing import CompileCounter

    backend = CompileCounter()
    case.run(lambda function, **options: torch.compile(function, backend=backend, **options))
    return Answer(graphs=backend.frame_count)


def counters(case: Any) -> Answer:
    from torch._dynamo.utils import counters as found

    case.run(_eager)
    broke = found["graph_break"]
    return Answer(
        graphs=found["stats"]["unique_graphs"],
        breaks=sum(broke.values()),
        why=bool(broke),
        line=bool(broke) and all(LINE.search(str(key)) for key in broke),
    )


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """``TORCH_LOGS=graph_breaks``, into a text. All switches are as they were afterwards."""
    import torch

    text = io.StringIO()
    torch._logging.set_logs(graph_breaks=True)
    handler = logging.StreamHandler(text)
    names = [
        f"torch._dynamo.{name}.__graph_breaks" for name in ("symbolic_convert", "convert_frame")
    ]
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(handler)
    quiet = [h for h in logging.getLogger("torch").handlers if isinstance(h, logging.StreamHandler)]
    streams = [h.setStream(io.StringIO()) for h in quiet]
    try:
        yield text
    finally:
        for handler_, stream in zip(quiet, streams, strict=True):
            if stream is not None:
                handler_.setStream(stream)
        for logger in loggers:
            logger.removeHandler(handler)
        torch._logging.set_logs()


def torch_logs(case: Any) -> Answer:
    with _logged() as text:
        case.run(_eager)
    found = GREP.findall(text.getvalue())
    return Answer(
        breaks=len(found),
        why=bool(found),
        line=bool(found) and bool(LINE.search(text.getvalue())),
    )


def _traced(case: Any, directory: Path) -> None:
    from pytest_graphbreak.suite.window import Trace

    trace = Trace(directory, case.name)
    trace.start()
    try:
        case.run(_eager)
    finally:
        trace.stop()


def tlparse(program: str) -> Callable[[Any], Answer]:
    """Counts what its ``compile_directory.json`` lists: graphs, and reasons of breaks."""

    def run(case: Any) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            _traced(case, Path(folder, "trace"))
            logs = list(Path(folder, "trace").rglob("*.log"))
            if not logs:
                return Answer(graphs=0, breaks=0, why=False, line=False)
            out = Path(folder, "out")
            subprocess.run(
                [program, str(logs[0]), "-o", str(out), "--no-browser"],
                check=True,
                capture_output=True,
            )
            listed = json.loads((out / "compile_directory.json").read_text())
            names = Counter(
                re.sub(r"(_\d+)?\.\w+$", "", str(artifact.get("name", artifact)))
                for entry in listed.values()
                for artifact in entry.get("artifacts", ())
            )
            reasons = [path.read_text() for path in out.rglob("*graph_break_reason*")]
        return Answer(
            graphs=names["dynamo_output_graph"],
            breaks=names["dynamo_graph_break_reason"],
            why=bool(reasons),
            line=bool(reasons) and all(LINE.search(text) for text in reasons),
        )

    return run


def trace_only(case: Any) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        _traced(case, Path(folder))
    return Answer()


def count(tools: list[Tool], cases: list[Any]) -> None:
    """Send every case through every tool."""
    for tool in tools:
        print(tool.name, file=sys.stderr, flush=True)
        for case in cases:
            _reset()
            try:
                tool.answers[case.name] = tool.run(case)
            except Exception as error:
                tool.failed.append(f"{case.name} ({type(error).__name__})")


def cost(tools: list[Tool], cases: list[Any], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each round, children too; the first round is dropped."""
    found: dict[str, list[float]] = {tool.name: [] for tool in tools}
    for round_ in range(rounds + 1):
        print(f"round {round_} of {rounds}", file=sys.stderr, flush=True)
        for tool in tools:
            start = _cpu()
            for case in cases:
                _reset()
                try:
                    tool.run(case)
                except Exception:  # counted above
                    continue
            if round_:
                found[tool.name].append(_cpu() - start)
    return found


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rows(tools: list[Tool], cases: list[Any], spent: dict[str, list[float]]) -> Iterator[str]:
    """Markdown, a row for each tool."""
    import torch

    true = {case.name: case.expected(torch.__version__) for case in cases}
    broken = [name for name, expect in true.items() if expect.places]
    whole = [name for name in true if name not in broken]
    yield (
        f"| | graphs right (of {len(true)}) | breaks right (of {len(true)}) | "
        f"says why (of {len(broken)} that break) | names the line | CPU time |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    off = spent["nobody watching"]
    for tool in tools:
        answers = tool.answers
        graphs = sum(t.graphs == true[n].graphs for n, t in answers.items())
        breaks = sum(t.breaks in (true[n].events, true[n].places) for n, t in answers.items())
        why = sum(bool(answers[n].why) for n in broken if n in answers)
        line = sum(bool(answers[n].line) for n in broken if n in answers)
        known = [answers[n] for n in (*broken, *whole) if n in answers]
        cells = [
            _cell(graphs, [t.graphs for t in known]),
            _cell(breaks, [t.breaks for t in known]),
            _cell(why, [t.why for t in known]),
            _cell(line, [t.line for t in known]),
            _ratio([a / b for a, b in zip(spent[tool.name], off, strict=True)]),
        ]
        yield f"| {tool.name} | " + " | ".join(cells) + " |"


def _cell(value: int, said: list[Any]) -> str:
    return "-" if all(item is None for item in said) else str(value)


def _ratio(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def wrong(tools: list[Tool], cases: list[Any]) -> Iterator[str]:
    """A line for each tool that gets graphs wrong or fails, with the first of the cases."""
    import torch

    for tool in tools:
        bad = [
            f"{case.name} (says {answers.graphs}, true {case.expected(torch.__version__).graphs})"
            for case in cases
            if (answers := tool.answers.get(case.name)) is not None
            and answers.graphs not in (None, case.expected(torch.__version__).graphs)
        ]
        if bad:
            yield f"- {tool.name} counts {len(bad)} wrong, such as {', '.join(bad[:4])}"
        if tool.failed:
            yield f"- {tool.name} fails on {len(tool.failed)}, such as {', '.join(tool.failed[:4])}"


def logs(number: int) -> Iterator[str]:
    """The rules for logs of the TT plugin, on ``number`` logs with true counts."""
    from pytest_graphbreak.layers.tt.log import TTLines
    from pytest_graphbreak.text.blocks import cut
    from pytest_graphbreak.text.scan import scan
    from tests.logs.writer import VERSIONS, Style, Writer, join, truth

    right: Counter[str] = Counter()
    dice = random.Random(7)
    for _ in range(number):
        writer = Writer(Style(ends=True))
        stages = dice.choice(VERSIONS)
        fails = dice.choice((None, None, None, "ttir"))
        writes = [
            write
            for graph in range(dice.randint(1, 40))
            for write in writer.graph(graph, stages, fails_after=fails if graph == 0 else None)
        ]
        data, true = join(writes), truth(writes).attempted
        seen = TTLines(None)
        for block in cut(io.BytesIO(data).readinto, 4096, 512):
            seen.begin(block)
            scan(block, [seen.group(block)])
            seen.end(block)
        seen.finish()
        ends = data.count(b"END OF MLIR MODULE")
        right["END markers divided by seven"] += ends / 7 == true
        right["END markers divided by seven, rounded"] += round(ends / 7) == true
        right["grep -c 'MLIR Module vhlo:'"] += data.count(b"MLIR Module vhlo:") == true
        right["graphbreak analyze"] += seen.programs.attempted == true
    yield f"| | right (of {number}) |"
    yield "| --- | ---: |"
    for name, value in right.items():
        yield f"| {name} | {value} |"


def xla() -> Iterator[str]:
    """torch_xla's metric read by hand and the plugin, on the cases of ``cases/xla.py``."""
    seen = {
        mode: json.loads(
            subprocess.run(
                [sys.executable, "cases/xla_runs.py", mode],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"PJRT_DEVICE": "CPU"},
            ).stdout.splitlines()[-1]
        )
        for mode in ("raw", "forked")
    }
    names = [name for name, run in seen["raw"].items() if "graphs" in run]
    equal = sum(seen["raw"][n]["graphs"] == seen["forked"][n].get("graphs") for n in names)
    graphs = [graph for n in names for graph in seen["forked"][n].get("graph_list", ())]
    placed = sum(bool(graph["where"] and graph["where"]["line"]) for graph in graphs)
    caused = sum(graph["cause"] != "other" for graph in graphs)
    yield f"{len(names)} cases of the xla layer, {len(graphs)} device graphs: by hand and by the "
    yield f"plugin the counts are equal in {equal}. The metric tells no reason and no line; the "
    yield f"plugin tells a cause other than `other` of {caused} and a line of {placed}."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--every", type=int, default=8, help="of which cases the cost is measured")
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--tlparse", default=shutil.which("tlparse"))
    asked = parser.parse_args()
    logging.getLogger("torch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    import torch

    from cases.dynamo import CASES

    minor = tuple(int(part) for part in torch.__version__.split(".")[:2])
    cases = [case for case in CASES.values() if case.since <= minor]
    tools = [
        Tool("nobody watching", nobody),
        Tool("pytest-graphbreak", plugin),
        Tool("torch._dynamo.explain", explain),
        Tool("CompileCounter", compile_counter),
        Tool('counters["graph_break"], ["stats"]', counters),
        Tool("TORCH_LOGS=graph_breaks and grep", torch_logs),
    ]
    if asked.tlparse:
        tools += [Tool("TORCH_TRACE alone", trace_only), Tool("tlparse", tlparse(asked.tlparse))]
    else:
        print("tlparse is not here (pip install tlparse, or --tlparse PATH)\n")
    count(tools, cases)
    spent = cost(tools, cases[:: asked.every], asked.rounds)
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"median of {asked.rounds} rounds (least to most)\n"
    )
    print("\n".join(rows(tools, cases, spent)), "\n")
    print("\n".join(wrong(tools, cases)), "\n")
    print("\n".join(logs(asked.logs)), "\n")
    if "torch_xla" in {name.partition(".")[0] for name in sys.modules} or _has_xla():
        print("\n".join(xla()))
    return 0


def _has_xla() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch_xla") is not None


if __name__ == "__main__":
    sys.exit(main())

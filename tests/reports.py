"""Reports made by hand, for tests of what reads them: as the plugin writes them, key for key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.json import entry_of
from pytest_graphbreak.model.report import TestReport

Data = dict[str, Any]


def timeless(value: Any) -> Any:
    """The same data without times, which differ from run to run."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key != "seconds"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def place(
    file: str = "models/head.py",
    function: str = "Head.forward",
    line: int = 8,
    code: str = "if scores.max().item() > 1:",
) -> Data:
    return {"file": file, "function": function, "line": line, "code": code}


def a_break(where: Data | None = None, **changes: Any) -> Data:
    where = where or place()
    return {
        "layer": "dynamo",
        "id": "GB0124",
        "reason": "Unsupported Tensor.item() call",
        "explanation": "Dynamo does not support tracing Tensor.item().",
        "hints": ["Set capture_scalar_outputs."],
        "count": 1,
        "where": where,
        "stack": [place("tests/test_a.py", "test_b", 20, "compiled(x)"), dict(where)],
        "process": None,
        "during": None,
        "disabled": {},
        "also": [],
        **changes,
    }


def a_graph(name: str = "0/0", cause: str = "entry", layer: str = "dynamo", **changes: Any) -> Data:
    return {
        "layer": layer,
        "name": name,
        "cause": cause,
        "ops": 12,
        "inputs": 2,
        "outputs": 1,
        "hash": None,
        "from": [],
        "process": None,
        "where": place(function="Model.forward", line=3, code="def forward(self, x):"),
        "reason": "",
        "module": None,
        "stack": [],
        "functions": {},
        "cached": None,
        "during": None,
        **changes,
    }


def a_test(nodeid: str = "tests/test_a.py::test_b", dynamo: int = 1, **changes: Any) -> Data:
    """A test that passed with ``dynamo`` graphs, one entry and the others after breaks."""
    breaks = [
        a_break(place(line=10 + number, code=f"if scores[{number}].item():"))
        for number in range(dynamo - 1)
    ]
    # A break cuts what is captured, and captures no less of it: twelve operations in all.
    graphs = [a_graph(ops=max(12 - len(breaks), 1))] if dynamo else []
    graphs += [
        a_graph(f"{number + 1}/0", "break", ops=1, where=item["where"], reason=item["reason"])
        for number, item in enumerate(breaks)
    ]
    return {
        "nodeid": nodeid,
        "outcome": "passed",
        "failed_by": None,
        "verdict": "none",
        "attempts": 1,
        "layers": ["dynamo"],
        "graphs": {"dynamo": dynamo} if dynamo else {},
        "recompiles": {},
        "ops": {"dynamo": sum(graph["ops"] for graph in graphs)} if graphs else {},
        "frames": {"attempted": dynamo, "compiled": dynamo},
        "breaks": breaks,
        "eager": [],
        "recompile_list": [],
        "graph_list": graphs,
        "executions": {},
        "reads": {},
        "execution_list": [],
        "read_list": [],
        "errors": [],
        "setup": {"graphs": {}, "phases": {}},
        "note": None,
        "settings": {},
        "leaks": {},
        "baseline": None,
        "budget": None,
        "ungated": None,
        "message": None,
        **changes,
    }


def with_changes(test: Data) -> Data:
    """A test with what moved against its baseline and cap, as the gate reports it."""
    if "changes" in test or test.get("verdict") not in ("over", "lost", "improved", "changed"):
        return test
    read = entry_of({**test, "nodeid": "-"})
    known = read.baseline
    expected = known and Expected(
        known,
        profile=known.profile or "",
        versions={name: version for name, version in known.versions.items() if version},
        recorded=read.foreign is None,
        own=known.layers if read.foreign is None else frozenset(),
    )
    verdict = judge(read.record, expected, read.cap, gate=True, ops=None, runs="off")
    changes = json.loads(json.dumps([change.to_dict() for change in verdict.changes]))
    return {**test, "changes": changes}  # as they are in a file: lists, no tuples


def over(
    nodeid: str = "tests/test_a.py::test_b", was: int = 1, now: int = 3, **changes: Any
) -> Data:
    """A test that the gate failed: its baseline allows ``was`` dynamo graphs."""
    return a_test(
        nodeid,
        now,
        **{
            "outcome": "failed",
            "failed_by": "gate",
            "verdict": "over",
            "baseline": {
                "profile": "cpu",
                "torch": "2.13",
                "graphs": {"dynamo": was},
                "recompiles": {},
                "ops": {},
                "breaks": [known(item["where"]) for item in a_test(nodeid, was)["breaks"]],
                "eager": [],
            },
            "budget": {"graphs": {"dynamo": was}},
            "message": f"graph budget: {now} dynamo graphs, the baseline allows {was} "
            f"({now - was:+d})\n\n  dynamo   {was} -> {now}\n",
            **changes,
        },
    )


def known(where: Data) -> Data:
    """A place as a baseline tells it."""
    return {
        "reason": "Unsupported Tensor.item() call",
        "id": "GB0124",
        "where": f"{where['file']}::{where['function']}",
        "code": where["code"],
        "count": 1,
    }


def a_report(*tests: Data, profile: str = "cpu", torch: str = "2.13.0", **session: Any) -> Data:
    """A report of a run that collected its files whole, came to its end and held all tests."""
    files = dict.fromkeys(test["nodeid"].partition("::")[0] for test in tests)
    return {
        "version": 1,
        "environment": {
            "profile": profile,
            "device": "cpu",
            "arch": None,
            "torch": torch,
            "torch_xla": None,
            "jax": None,
            "python": "3.11.7",
            "platform": "linux",
            "packages": {},
        },
        "session": {
            "exit": 1 if any(test["outcome"] == "failed" for test in tests) else 0,
            "collected": len(tests),
            "deselected": 0,
            "complete_files": [],
            "collected_whole": list(files),
            "deselected_tests": [],
            "unmeasured": [],
            "stale": [],
            **session,
        },
        "tests": [*map(with_changes, tests)],
    }


def a_shard(*numbers: int, of: int = 4, **changes: Any) -> Data:
    """Some tests of a file that was collected whole; the others were deselected."""
    names = [f"tests/test_a.py::test[{number}]" for number in range(of)]
    taken = [names[number] for number in numbers]
    left = [name for name in names if name not in taken]
    session: Data = {"collected": of, "deselected": len(left), "deselected_tests": left}
    return a_report(*(a_test(name) for name in taken), **(session | changes))


def as_tests(*tests: Data) -> list[TestReport]:
    """Such tests as a reader of the report has them."""
    return [
        replace(entry_of({**test, "nodeid": "-"}), nodeid=test["nodeid"])
        for test in map(with_changes, tests)
    ]


def write(path: Path, report: Data) -> str:
    """Write a report and give back its path, as a command takes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report))
    return str(path)

"""Records the reports of situations by real runs: one pytest run of all before, one of all after.

Needs the compiler. What differs from machine to machine is left out (``steady``).
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.golden.runs import in_checkout, inside, pretty, run_pytest, steady
from tests.golden.situation import Situation, of_compiler

SHOWN: Final = "live.txt"
"""What pytest shows of a real run, where the replay cannot know it: the code of a test ran."""
REPORT: Final = "graphs.json"


def compiler() -> str:
    """Which situations are recorded here: those of torch_xla, torch or jax."""
    for name in ("torch_xla", "torch", "jax"):
        if importlib.util.find_spec(name) is not None:
            return name
    raise LookupError("no compiler is installed in this Python: torch, torch_xla or jax")


def record(wanted: Sequence[str], out: Path) -> list[str]:
    """Record situations, all where none is named, below ``out``. Gives back their names."""
    found = [one for one in of_compiler(compiler()) if not wanted or one.name in wanted]
    with in_checkout() as top:
        _run_all(found, top / "before", out, changed=False)
        for ini, group in groupby(sorted(found, key=lambda one: one.ini), lambda one: one.ini):
            _run_all(list(group), top / f"after-{'-'.join(ini)}", out, changed=True)
        for one in found:
            if one.shown:
                (out / one.name / SHOWN).write_text(_shown(one, top / f"shown-{one.name}"))
    return [one.name for one in found]


def _shown(one: Situation, top: Path) -> str:
    """What pytest shows of a real run, on a terminal."""
    (top / "baselines").mkdir(parents=True)  # without it the gate does not begin
    one.write(top, changed=True)
    with inside(top, {}, terminal=True) as shown:
        run_pytest(
            [*one.options, one.test_file], added="--color=yes --code-highlight=no --tb=short"
        )
    return steady(shown.text, top)


def _run_all(found: Sequence[Situation], top: Path, out: Path, *, changed: bool) -> None:
    """Run one side of situations, in one process and one pytest run; write a report for each."""
    found = [one for one in found if changed or one.is_compared]
    if not found:
        return
    top.mkdir()
    for one in found:
        one.write(top, changed=changed)
    with inside(top, {}, terminal=False) as shown:
        code = run_pytest([f"--graph-budget-report={REPORT}", *(one.test_file for one in found)])
    if code not in (0, 1):
        raise RuntimeError(f"pytest ended with {code}:\n{shown.text}")
    report = json.loads((top / REPORT).read_text())
    for one in found:
        target = out / one.name / ("after.json" if changed else "before.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(pretty(_of(one, report, top)) + "\n")


def _of(one: Situation, report: dict[str, Any], top: Path) -> dict[str, Any]:
    """The report of one situation: of a run that had nothing but its file."""
    tests = [test for test in report["tests"] if _file(test["nodeid"]) == one.test_file]
    if not tests:
        raise RuntimeError(f"{one.name}: no test of it ran")
    session = report["session"] | {
        "exit": int(any(test["outcome"] == "failed" for test in tests)),
        "collected": len(tests),
    }
    for key in ("complete_files", "unmeasured", "stale", "collected_whole", "deselected_tests"):
        session[key] = [name for name in session[key] if _file(name) == one.test_file]
    same: dict[str, Any] = _same(report | {"session": session, "tests": tests}, top)
    return same


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _same(data: Any, top: Path) -> Any:
    """The same without what is this machine's: its Python, its directories, addresses, times."""
    timeless = re.sub(r', "seconds": [\d.e-]+', "", json.dumps(data))
    same = json.loads(steady(timeless, top))
    same["environment"] |= {"python": "3.11.7", "platform": "linux"}
    return same

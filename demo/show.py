"""The two halves of the demo. Each runs pytest, and judges what its report says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
MODELS: Final = Path("tests", "models")
BASELINE: Final = Path("baselines", "tests", "models", "test_ranker.yaml")
GREEN: Final = (
    *(f"tests/models/test_forward.py::test_forward[{name}]" for name in ("bert", "gpt2", "llama")),
    "tests/models/test_ranker.py::test_ranker",
)
"""What the first half runs: forwards of transformers, and a model of the user's own."""

WAS: Final = "        scores = scores.clamp(max=self.limit)\n"
PLANTED: Final = (
    "        if scores.max().item() > self.limit:\n"
    "            scores = scores.clamp(max=self.limit)\n"
)
"""A shortcut anybody might write. The scores stay right, and the graph falls apart."""


def green(tests: Sequence[str], scratch: Path) -> bool:
    """Run ``tests`` against the committed baselines; whether each is as it was recorded."""
    print("== 1. The graphs of real models, against the baselines in git: must be green ==\n")
    code, report = _gate(ROOT / "pyproject.toml", tests, scratch / "green.json", ROOT)
    print("\n  FX graphs  device graphs  test")
    for test in report["tests"]:
        graphs = test["graphs"]
        print(f"  {graphs.get('dynamo', 0):9}  {graphs.get('xla', 0):13}  {test['nodeid']}")
    return (
        code == 0
        and len(report["tests"]) == len(tests)
        and all(test["verdict"] == "ok" and test["graphs"].get("xla") for test in report["tests"])
    )


def red(scratch: Path, planted: str = PLANTED) -> bool:
    """Plant a break in a copy of a model, run its test; whether the gate failed it for that.

    The copy stays in ``scratch``: what pytest prints to be typed next is about it.
    """
    print("\n== 2. The same with a graph break planted in a copy of a model: must be red ==\n")
    project = scratch / "planted"
    shutil.copytree(ROOT / MODELS, project / MODELS, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "tests" / "__init__.py").touch()
    ini = project / "pytest.ini"
    ini.write_text("[pytest]\n", encoding="utf-8")
    device = 'import os\n\nos.environ.setdefault("PJRT_DEVICE", "CPU")\n'
    (project / "conftest.py").write_text(device, encoding="utf-8")
    (project / BASELINE).parent.mkdir(parents=True)
    shutil.copy(ROOT / BASELINE, project / BASELINE)
    model = project / MODELS / "ranker.py"
    source = model.read_text(encoding="utf-8")
    if source.count(WAS) != 1:
        raise RuntimeError(f"{model.name}: the line to plant a break at is not there: {WAS!r}")
    model.write_text(source.replace(WAS, planted), encoding="utf-8")
    print("".join(f"  - {line}\n" for line in WAS.splitlines()), end="")
    print("".join(f"  + {line}\n" for line in planted.splitlines()))
    test = os.path.relpath(project / "tests/models/test_ranker.py")
    code, report = _gate(ini, [test], scratch / "red.json", Path.cwd())
    return code == 1 and [
        (test["verdict"], test["failed_by"], [item["where"]["function"] for item in test["breaks"]])
        for test in report["tests"]
    ] == [("over", "gate", ["Ranker.forward"])]


def _gate(ini: Path, tests: Sequence[str], report: Path, cwd: Path) -> tuple[int, dict[str, Any]]:
    """pytest's exit code and the plugin's report; what pytest prints goes to the terminal."""
    # -v: a line for each test as it begins, since some take half a minute.
    options = ("-v", "--no-header", "-p", "no:cacheprovider", "--disable-warnings")
    options = (*options, f"--rootdir={ini.parent}", "-c", str(ini))
    command = [sys.executable, "-m", "pytest", *options, "--graph-budget"]
    command += ["--graph-budget-device=xla", f"--graph-budget-report={report}", *tests]
    print("$ pytest --graph-budget --graph-budget-device=xla", *tests, flush=True)
    environment = os.environ | {"PJRT_DEVICE": "CPU", "HF_HUB_OFFLINE": "1"}
    code = subprocess.run(command, cwd=cwd, env=environment, check=False).returncode
    if not report.exists():
        return code, {"tests": []}
    loaded: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return code, loaded

"""vLLM on a CPU, with random weights: whole and in parts, cold and warm, in two processes and one.

``tox -e engines`` runs it; the first test is the example of docs/how-to/serving.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.tools import ROOT, blocks, write_files

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vllm: tox -e engines", allow_module_level=True)

PAGE = ROOT / "docs" / "how-to" / "serving.md"
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "CI": "",
}
IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

WHOLE = """
import torch._dynamo.utils
import vllm
from vllm.compilation.counter import compilation_counter


def test_start():
    llm = vllm.LLM(
        "model",
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=64,
        gpu_memory_utilization=0.2,
        compilation_config={"compile_sizes": [1, 8]},
    )
    parameters = vllm.SamplingParams(max_tokens=4, detokenize=False)
    llm.generate([{"prompt_token_ids": [1, 5, 6]}], parameters)
    counters = dict(vars(compilation_counter))
    counters["unique_graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with open("counters.json", "w") as file:
        json.dump(counters, file)
"""

# On a CPU vLLM compiles the model as a whole. This undoes that, and leaves out a pass for CUDA.
PARTS = """
import json

import pytest
from vllm.compilation.passes.utility.fix_functionalization import FixFunctionalizationPass
from vllm.config import CompilationMode
from vllm.platforms.cpu import CpuPlatform

update = CpuPlatform.check_and_update_config.__func__


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    def in_parts(cls, config):
        update(cls, config)
        config.compilation_config.mode = CompilationMode.VLLM_COMPILE
        config.compilation_config.splitting_ops = ["vllm::unified_attention_with_output"]

    monkeypatch.setattr(CpuPlatform, "check_and_update_config", classmethod(in_parts))
    monkeypatch.setattr(FixFunctionalizationPass, "__call__", lambda self, graph: None)
"""


def run(folder: Path, *options: str, **environment: str) -> tuple[str, dict[str, Any]]:
    """Return what a run of ``tests`` prints, and its tests by name."""
    command = [sys.executable, "-m", "pytest", "-q", "tests", "-p", "no:cacheprovider"]
    report = "--graph-budget-report=graphs.json"
    result = subprocess.run(
        [*command, report, *options],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "VLLM_CACHE_ROOT": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=900,
    )
    assert (folder / "graphs.json").exists(), result.stdout + result.stderr
    tests = json.loads((folder / "graphs.json").read_text())["tests"]
    return result.stdout, {test["nodeid"].rpartition("::")[2]: test for test in tests}


def write(folder: Path, source: str) -> None:
    write_files(PAGE, folder)
    for test in (folder / "tests").iterdir():
        test.unlink()
    (folder / "tests" / "test_start.py").write_text(source)


def counters(folder: Path) -> dict[str, int]:
    return dict(json.loads((folder / "counters.json").read_text()))


def test_the_first_request_with_logprobs_is_red_at_its_line(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    for test in (tmp_path / "tests").iterdir():
        if test.name != "test_requests.py":
            test.unlink()
    printed, tests = run(tmp_path)
    outcomes = {name: test["outcome"] for name, test in tests.items()}
    assert outcomes == {
        "test_a_request_compiles_nothing": "passed",
        "test_the_first_with_logprobs": "failed",
    }, printed
    (shown,) = (block for block in blocks(PAGE) if "logprobs.py:11" in block.text)
    for line in shown.text.splitlines():
        assert line.strip() in printed
    # The warm-up is the fixture's; the worker tells the runs of the two requests of four tokens.
    first = tests["test_a_request_compiles_nothing"]
    assert (first["graphs"], first["executions"]) == ({}, {"dynamo": 8})


def test_the_whole_model_in_one_process(tmp_path: Path) -> None:
    """The second start loads what the first one stored, gives it up and compiles again."""
    write(tmp_path, f"import json\n{WHOLE}")
    printed, tests = run(tmp_path, "--graph-budget-record", **IN_PROCESS)
    assert tests["test_start"]["outcome"] == "passed", printed
    _, tests = run(tmp_path, "--graph-budget", **IN_PROCESS)
    start = tests["test_start"]
    assert start["verdict"] == "ok"
    assert start["graphs"] == {"dynamo": counters(tmp_path)["unique_graphs"], "inductor": 1}
    graph = next(graph for graph in start["graph_list"] if graph["layer"] == "dynamo")
    assert graph["where"]["function"] == "LlamaModel.forward"


def test_the_parts_are_the_same_cold_and_warm(tmp_path: Path) -> None:
    write(tmp_path, PARTS + WHOLE)
    printed, cold = run(tmp_path, "--graph-budget-record", **IN_PROCESS)
    assert cold["test_start"]["outcome"] == "passed", printed
    compiled = counters(tmp_path)["num_inductor_compiles"]
    marked = WHOLE.replace("def test_start", "@pytest.mark.max_graphs(compiled=0)\ndef test_start")
    write(tmp_path, PARTS + marked)
    _, warm = run(tmp_path, "--graph-budget", **IN_PROCESS)
    loaded = counters(tmp_path)["num_compiled_artifacts_loaded"]
    parts = []
    for tests, count, cached in ((cold, compiled, "compiled"), (warm, loaded, "loaded")):
        start = tests["test_start"]
        assert (start["verdict"] in ("ok", "new"), start["executions"]) == (True, {"dynamo": 5})
        assert start["graphs"] == {"dynamo": 1, "inductor": count}
        below = [graph for graph in start["graph_list"] if graph["layer"] == "inductor"]
        assert {graph["cached"] for graph in below} == {cached}
        assert {name for graph in below for name in graph["from"]} == {"capture/0"}
        places = ((graph["where"]["function"], graph["reason"]) for graph in below)
        parts.append(sorted((function, reason.partition(";")[0]) for function, reason in places))
    assert parts[0] == parts[1]
    assert ("VocabParallelEmbedding.forward", "for i32[8]") in parts[0]

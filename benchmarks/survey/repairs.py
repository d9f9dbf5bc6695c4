"""``graphbreak fix`` on the classes of the survey that break: what goes, what stays, and why.

    python -m benchmarks.survey.repairs --out build/repairs.jsonl [--runs 24] [NAME...]
    python -m benchmarks.survey.repairs --out build/recorded.jsonl --recorded [NAME...]

Each class is a script of its own that builds it small, compiles it and calls it
twice; the search for patches is the one of the command. With ``--recorded`` nothing is
searched for: the patches that ``repairs.jsonl`` has for a class are made again, and held to the
unseen inputs. Resumable as ``run`` is.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.survey.data import DRAWN, REPAIRS, RESULTS, read
from benchmarks.survey.kinds import drawn, kind, repaired_whole
from benchmarks.survey.recorded import Recorded
from benchmarks.survey.run import append, done
from benchmarks.survey.unseen import compared
from pytest_graphbreak.repair.gain import Problem, graphs
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import bench

ROOT: Final = Path(__file__).parents[2]
PAPER: Final = (
    "T5ForConditionalGeneration",
    "WhisperForConditionalGeneration",
    "BartForConditionalGeneration",
    "BioGptForCausalLM",
    "BlenderbotForConditionalGeneration",
    "MarianMTModel",
    "PegasusForCausalLM",
    "LayoutLMv3Model",
    "Phi3ForCausalLM",
    "GroundingDinoModel",
    "LongformerModel",
    "ClapModel",
)
"""The classes of transformers behind GraphMend's rows that need no code of others."""

VALUES: Final[dict[str, dict[str, Any]]] = {
    "Phi3ForCausalLM": {
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 8,
            "long_factor": [2.0] * 8,
            "original_max_position_embeddings": 64,
        }
    },
}
"""What the configuration of a row has that the class has not by itself: Phi-4-mini's LongRoPE."""

_SCRIPT: Final = """\
import torch

from benchmarks.survey.measure import small

model, inputs = small({name!r}{values})
compiled = torch.compile(model, backend="eager")
with torch.no_grad():
    compiled(**inputs)
    compiled(**inputs)
"""

Plain = dict[str, Any]


def repaired(
    name: str, most: int, timeout: float, patches: Path | None = None, assume: bool = False
) -> Plain:
    """What ``fix`` makes of a class, and what it leaves. The fixed script goes to ``patches``."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, bench(timeout) as desk:
        target = _target(name, Path(directory))
        search = Search(
            target,
            desk,
            most=most,
            keep_side_effects=False,
            assume=assume,
            header="",
            say=lambda _: None,
            progress=lambda *_: None,
        )
        out = search.run()
        runs = desk.runs
        seen = {}
        if out.source is not None:
            scripts = {"plain": target.path.read_bytes(), "patched": out.source}
            seen = compared(name, scripts, VALUES.get(name, {}), 4 * timeout)
    if patches is not None and out.source is not None:
        patches.mkdir(parents=True, exist_ok=True)
        (patches / f"{name}.py").write_bytes(out.source)
    if out.first.error:
        return {"model": name, "status": "does not run", "why": str(out.first.error)[:200]}
    return {
        "model": name,
        "status": "ran",
        "assume": assume,
        "graphs": [out.before, out.after],
        "breaks": [len(out.first.record.breaks), len(out.last.record.breaks)],
        "kept": [patch.title for patch in out.kept],
        "drops": [patch.drops for patch in out.kept if patch.drops],
        "compared": out.last.compared if out.kept else 0,
        "unseen": seen.get("patched", {}),
        "unpatched": seen.get("plain", {}),
        "open": [_open(problem) for problem in out.problems if not problem.fixed],
        "stopped": out.stopped,
        "runs": runs,
        "seconds": round(time.monotonic() - began),
    }


def again(known: Plain, timeout: float) -> Plain:
    """Make the recorded repair of a class again, and hold it to the unseen inputs."""
    began, name = time.monotonic(), known["model"]
    with tempfile.TemporaryDirectory() as directory, bench(timeout) as desk:
        target = _target(name, Path(directory))
        repair = Recorded(target, desk, list(known["kept"]))
        first, last = repair.run()
        seen = {}
        if repair.source is not None and last.error is None:
            scripts = {"plain": target.path.read_bytes(), "patched": repair.source}
            seen = compared(name, scripts, VALUES.get(name, {}), 2 * timeout)
    return {
        "model": name,
        "status": "does not run" if first.error else "ran",
        "why": str(first.error or last.error or "")[:200],
        "graphs": [graphs(first.record), graphs(last.record)],
        "breaks": [len(first.record.breaks), len(last.record.breaks)],
        "kept": [patch.title for patch in repair.kept],
        "missing": repair.left,
        "unseen": seen.get("patched", {}),
        "unpatched": seen.get("plain", {}),
        "runs": desk.runs,
        "seconds": round(time.monotonic() - began),
    }


def _target(name: str, directory: Path) -> Target:
    """Return the script of a class, which is written into the directory."""
    values = "".join(f", {key}={value!r}" for key, value in VALUES.get(name, {}).items())
    target = Target(directory / "model.py")
    target.path.write_text(_SCRIPT.format(name=name, values=values))
    return target


def unheld(repairs: list[Plain], held: set[str]) -> list[str]:
    """Return the repaired classes that are not held to unseen inputs yet, in the order to run.

    First those without constants of a deployment, the quickest search first; then the others, as
    chance has it.
    """
    left = [one for one in repairs if one["model"] not in held and repaired_whole(one)]
    kinds = {one["model"]: kind(one) for one in left}
    first = [one for one in left if kinds[one["model"]] != "constants"]
    first.sort(key=lambda one: (one["seconds"], one["model"]))
    rest = sorted(one["model"] for one in left if kinds[one["model"]] == "constants")
    random.Random(27).shuffle(rest)
    return [*(one["model"] for one in first), *rest]


def _open(problem: Problem) -> Plain:
    where = problem.item.where if problem.item is not None else None
    return {
        "reason": problem.title,
        "where": f"{where.file}::{where.function}" if where else "",
        "code": where.code if where else "",
        "tried": [f"{one.patch.title}: {one.why}"[:240] for one in problem.tried if one.why],
    }


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survey.repairs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these classes")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=24, help="of each class at most (24)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run (300)")
    parser.add_argument("--patches", type=Path, help="a directory for the fixed scripts")
    parser.add_argument("--assume", action="store_true", help="as graphbreak fix --assume does")
    parser.add_argument("--recorded", action="store_true", help="make what is recorded, unsought")
    parser.add_argument("--draw", metavar="N:SEED", help="N of the classes that were repaired")
    parser.add_argument("--from", dest="source", type=Path, default=RESULTS)
    return parser


def _names(asked: argparse.Namespace) -> list[str]:
    """Return the classes to run: those that were named, else those of the options."""
    if asked.draw:
        return drawn(read(REPAIRS), *map(int, asked.draw.split(":")))
    if asked.names:
        return list(asked.names)
    if asked.recorded:
        return unheld(read(REPAIRS), {one["model"] for one in read(DRAWN)})
    broken = [each["model"] for each in read(asked.source) if each.get("breaks")]
    return list(dict.fromkeys([*PAPER, *broken]))


def main(arguments: list[str] | None = None) -> int:
    asked = _arguments().parse_args(arguments)
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    had = {line["model"] for line in done(asked.out)}
    known = {each["model"]: each for each in read(REPAIRS)}
    for name in _names(asked):
        if name in had:
            continue
        if asked.recorded:
            result = again(known[name], asked.timeout)
        else:
            result = repaired(name, asked.runs, asked.timeout, asked.patches, asked.assume)
        append(asked.out, result)
        print(name, {k: v for k, v in result.items() if k not in ("model", "open")}, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

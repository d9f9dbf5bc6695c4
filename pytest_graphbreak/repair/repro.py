"""Writes a script of its own for each break, runs it, and says whether the break came.

The smallest function that has the break is taken out of the running program
with its arguments; where it can not be (it is local, or can not be saved), the
function that called it; in the end, the program itself.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_graphbreak.record import Break, Frame
from pytest_graphbreak.repair.alone import alone
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

MOST_TRIES = 5
"""Functions that are tried for one break, from the break outwards."""


@dataclass(frozen=True, slots=True)
class Script:
    """One script. ``verified`` is true if the same break came; else ``why`` says why not."""

    path: Path
    item: Break
    what: str
    verified: bool
    why: str = ""


class Repro:
    """Writes the scripts of one target."""

    def __init__(self, target: Target, bench: Bench, out: Path, *, as_test: bool) -> None:
        self.first = bench.measure(target, compare=False, outputs=False, same_random=False)
        self._target = target
        self._bench = bench
        self._out = out
        self._as_test = as_test
        self._source = target.path.read_text(encoding="utf-8")

    def run(self, progress: Callable[[int, int, str], None]) -> Iterator[Script]:
        """One script a break, each as soon as it has been run."""
        breaks = self.first.record.breaks
        if not breaks:
            return
        self._out.mkdir(parents=True, exist_ok=True)
        progress(0, len(breaks), "taking the functions out")
        cuts = self._cuts()
        for number, item in enumerate(breaks, 1):
            progress(number - 1, len(breaks), f"{item.where.function}: {item.reason}")
            yield self._script(number, item, cuts)

    def _cuts(self) -> dict[str, Any]:
        folder = self._out / ".cuts"
        folder.mkdir(exist_ok=True)
        wanted = {
            (frame.file, frame.function)
            for item in self.first.record.breaks
            for frame in (*item.stack, item.where)
            if frame.function not in ("", "<module>")
        }
        order = {"cut": sorted(wanted), "folder": str(folder)}
        answer, _ = self._bench.run(self._target, order)
        cuts: dict[str, Any] = answer.get("cuts") or {}
        return cuts

    def _script(self, number: int, item: Break, cuts: dict[str, Any]) -> Script:
        """Try the functions from the break outwards, and then the program."""
        stem = re.sub(r"\W", "_", self._target.path.stem)
        name = f"{'test_' if self._as_test else ''}{stem}_repro_{number}"
        path, data = self._out / f"{name}.py", self._out / f"{name}.pt"
        reasons = []
        for frame in _outwards(item)[:MOST_TRIES]:
            cut = cuts.get(f"{frame.file}\n{frame.function}")
            if cut is None or "file" not in cut:
                why = "it was not called by itself" if cut is None else cut["why"]
                reasons.append(f"{frame.function}: {why}")
                continue
            data.unlink(missing_ok=True)
            if cut["inline"] is None:
                shutil.copyfile(cut["file"], data)
            path.write_text(self._text(item, frame, cut, data.name), encoding="utf-8")
            trial = self._measure(path)
            if (why := missing(item, trial)) is None:
                return Script(path, item, frame.function, True, "; ".join(reasons))
            reasons.append(f"{frame.function} alone: {why}")
        data.unlink(missing_ok=True)
        path.write_text(self._whole(item), encoding="utf-8")
        why = missing(item, self._measure(path))
        if why is not None:
            reasons.append(f"the whole program: {why}")
        return Script(path, item, "the whole program", why is None, "; ".join(reasons))

    def _measure(self, path: Path) -> Trial:
        target = Target(path, "test_no_break" if self._as_test else "")
        return self._bench.measure(target, compare=False, outputs=False, same_random=False)

    def _text(self, item: Break, frame: Frame, cut: dict[str, Any], data: str) -> str:
        """The script that calls one function."""
        own = cut["module"] in ("__main__", self._target.path.stem)
        first, *_rest = frame.function.split(".")
        imports = [] if cut["inline"] is not None else ["from pathlib import Path", ""]
        if cut["module"] == "__main__":
            body = alone(self._source, {first, *cut["needs"]})
        elif own:
            folder = str(self._target.path.resolve().parent)
            imports = ["import sys", *imports]
            body = (
                f"sys.path.insert(0, {folder!r})\nfrom {cut['module']} import {first}  # noqa: E402"
            )
        else:
            body = f"from {cut['module']} import {first}"
        future = "from __future__ import annotations"
        if body.startswith(future):
            body = body.removeprefix(future).lstrip("\n")
            imports.insert(0, future + "\n")
        head = [*self._header(item, frame.function), "", *imports, "import torch"]
        return "\n".join(
            [*head, *self._device_imports(), body, "", "", *self._main(frame, cut, data), ""]
        )

    def _main(self, frame: Frame, cut: dict[str, Any], data: str) -> Iterator[str]:
        options = self.first.answer.get("options") or {}
        given = "".join(
            f", {key}={value!r}"
            for key, value in options.items()
            if value is not None and key in ("backend", "dynamic", "mode")
        )
        if "backend" in options and options["backend"] is None:
            given += ', backend="eager"'
        yield "def main():"
        if self.first.answer.get("device") == "TT":
            yield '    xr.set_device_type("TT")'
        yield "    torch.manual_seed(0)"
        call = cut["inline"]
        if call is not None and ".to(device)" in call:
            yield "    device = torch_xla.device()"
        what = frame.function
        if call is None:
            yield f'    saved = torch.load(Path(__file__).with_name("{data}"), weights_only=False)'
            call = '*saved["args"], **saved["kwargs"]'
            if cut["method"]:
                yield '    module, *inputs = saved["args"]'
                name = frame.function.rsplit(".", 1)[-1]
                what = "module" if name == "forward" else f"module.{name}"
                call = '*inputs, **saved["kwargs"]'
        yield f"    compiled = torch.compile({what}{given})"
        yield f"    with torch.set_grad_enabled({cut['grad']}):"
        yield f"        result = compiled({call})"
        if self.first.answer.get("device"):
            yield "    torch_xla.sync()"
        yield "    return result"
        yield from self._end("main()")

    def _end(self, call: str) -> Iterator[str]:
        yield from ("", "")
        if self._as_test:
            yield "@pytest.mark.max_graphs(1, breaks=0)"
            yield "def test_no_break():"
            yield f"    {call}"
        else:
            yield 'if __name__ == "__main__":'
            yield f"    {call}"

    def _device_imports(self) -> list[str]:
        lines = ["import pytest"] if self._as_test else []
        if self.first.answer.get("device"):
            lines.append("import torch_xla")
        if self.first.answer.get("device") == "TT":
            lines.append("import torch_xla.runtime as xr")
        return [*lines, ""]

    def _header(self, item: Break, what: str) -> list[str]:
        name = f"{item.id}  " if item.id else ""
        lines = [
            f"Written by `graphbreak repro {self._target.name}`: {what}.",
            f"{name}{item.reason}",
            f"{item.where.file}:{item.where.line} in {item.where.function}",
            f"    {item.where.code}",
        ]
        return [f"# {' '.join(line.split()) if line[0] != ' ' else line}" for line in lines]

    def _whole(self, item: Break) -> str:
        """The script that runs the program as it is."""
        lines = [*self._header(item, "the whole program"), ""]
        path = str(self._target.path.resolve())
        if self._target.test:
            lines += ["import pytest", "", "", "def main():"]
            lines += [
                "    options = ['-q', '-p', 'no:cacheprovider', '-o', 'addopts=']",
                f"    pytest.main([*options, {f'{path}::{self._target.test}'!r}])",
            ]
        else:
            lines += ["import runpy", "import sys", *self._device_imports(), "", "def main():"]
            lines += [
                f"    sys.argv = [{path!r}, *{list(self._target.arguments)!r}]",
                f"    runpy.run_path({path!r}, run_name='__main__')",
            ]
        return "\n".join([*lines, *self._end("main()"), ""])

    def clean(self) -> None:
        """Take away what only the making needed."""
        shutil.rmtree(self._out / ".cuts", ignore_errors=True)


def _outwards(item: Break) -> list[Frame]:
    """The functions around a break, the innermost first, each once."""
    frames = [item.where, *reversed(item.stack)]
    seen: dict[tuple[str, str], Frame] = {}
    for frame in frames:
        if frame.function not in ("", "<module>"):
            seen.setdefault((frame.file, frame.function), frame)
    return list(seen.values())


def missing(item: Break, trial: Trial) -> str | None:
    """Why a run does not show this break; None if it does: same function, line and reason."""
    for other in trial.record.breaks:
        same_line = " ".join(other.where.code.split()) == " ".join(item.where.code.split())
        same_name = other.where.function == item.where.function
        # Up to torch 2.11 a branch has an id only in a function that another one called.
        same_id = other.id == item.id or None in (other.id, item.id)
        if same_line and same_name and same_id and other.reason == item.reason:
            return None
    if trial.error is not None:
        return f"it fails: {trial.error[:160]}"
    others = ", ".join(dict.fromkeys(other.reason for other in trial.record.breaks))
    return f"other breaks came: {others}" if others else "no break came"

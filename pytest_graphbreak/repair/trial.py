"""Runs the program in a fresh process, and collects the results."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.layers.children.runner import Runner, is_left, runner
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.repair.build import Site
from pytest_graphbreak.repair.source import read
from pytest_graphbreak.repair.target import Target


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a run.

    ``error`` is why it failed, ``mismatch`` what differs from the original. ``compared`` is the
    number of inputs for which results were compared, ``raising`` the number of those for which the
    program and its original both raise, ``endless`` of those for which the original does not end
    in time, which are left out.
    """

    record: Record
    error: str | None = None
    stack: Sequence[dict[str, Any]] = ()
    """The user's frames that led to the error (``failure.user_frames``)."""
    mismatch: str | None = None
    compared: int = 0
    raising: int = 0
    endless: int = 0
    codegen: bool = True
    """Whether inductor, if it is used, generates code, and the times are those of the program."""
    inductor: bool = False
    """Whether inductor compiles something."""
    seconds: float = 0.0
    warm: float | None = None
    trained: bool = False
    fullgraph: bool = False
    entries: int = 0
    lines: Sequence[str] = ()
    """The lines that the program printed or logged while measured; pytest keeps those of a test."""
    held: str | None = None
    """What the program holds at its end that the original does not, or the other way round."""
    varies: Sequence[dict[str, Any]] = ()
    """The sizes that vary from call to call (``sizes.varying_sizes``)."""
    varied: int = 0
    """The number of other inputs for which results were compared."""
    resized: int = 0
    """The number of inputs of other sizes that only the run before compared, without codegen."""
    again: Sequence[dict[str, Any]] = ()
    """The other inputs for which something was compiled again: ``kind``, ``why``, its line."""
    other_sizes: Sequence[dict[str, Any]] = ()
    """The sizes that vary in those inputs."""
    numbers: Mapping[str, list[str]] = field(default_factory=dict)
    """The Python numbers that vary from call to call (``sizes.numbers``), by callable."""
    roots: Sequence[str] = ()
    """The qualified names of the functions that are compiled."""
    out: str = ""
    sites: Mapping[str, Site] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def torch(self) -> tuple[int, ...]:
        """The major and minor version of the torch that ran; (0, 0) if it is unknown."""
        found = re.match(r"(\d+)\.(\d+)", str(self.answer.get("torch", "")))
        return tuple(map(int, found.groups())) if found else (0, 0)

    def source(self, frame: Frame) -> str:
        """Return the text of the file that a frame is in, or "" if it is not known."""
        site = self.sites.get(frame.file)
        try:
            text = read(site.path).text if site is not None else ""
            compile(text, frame.file, "exec", dont_inherit=True)
        except (OSError, ValueError, SyntaxError):
            return ""
        return text

    @property
    def differs(self) -> str:
        """Why it failed, or what differs from the original; "" if it gave the same results."""
        return self.error or self.mismatch or ""

    @property
    def same(self) -> bool:
        """Whether it ran and gave the results of the original."""
        return not self.differs

    @property
    def at(self) -> str:
        """The line that an error came from, if it is one of the user's: `` at `line` ``."""
        code = self.stack[-1]["code"] if self.stack else ""
        return f" at `{code[:60]}`" if code else ""


def printed(first: Trial, trial: Trial, drops: bool) -> str | None:
    """Return how the printed lines, or what is held at the end, differ; None if they agree.

    Their order and the numbers in them are ignored, but not whether a number is rounded. A patch
    that says which line it drops may drop lines, and no patch may add any.
    """
    before, after = (
        Counter(_NUMBER.sub(_shape, line) for line in one.lines) for one in (first, trial)
    )
    if after - before:
        return f"it prints what the original does not: {next(iter(after - before))[:60]!r}"
    if before - after and not drops:
        return f"it no longer prints {next(iter(before - after))[:60]!r}"
    return trial.held if not drops else None


def _shape(number: re.Match[str]) -> str:
    """Return ``#`` for a number, and ``#.#`` for one with all its digits, which no format made."""
    return "#.#" if len(number[0].partition(".")[2]) > _ROUNDED else "#"


_ROUNDED: Final = 9
"""The decimals that a format writes at most; ``repr`` of a float mostly writes more."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?(?:e[+-]?\d+)?|0x[0-9a-f]+")
_WORK: Final = "pytest_graphbreak.repair.child:work"
_SAID: Final = (
    *("error", "stack", "mismatch", "compared", "raising", "endless"),
    *("seconds", "warm", "trained", "inductor"),
    *("fullgraph", "entries", "lines", "varies", "varied", "numbers", "again"),
    *("other_sizes", "roots", "held"),
)
"""The keys that an answer and a trial have in common."""
_MARK: Final = "# graphbreak fix tries this file and removes it; its other files: "
"""The beginning of the last line of a copy, where it does not move any line of the program."""


class Bench:
    """Runs targets in fresh processes. Its files are in the directory of the runner."""

    def __init__(self, runner: Runner) -> None:
        self.runs = 0
        self.directory = runner.directory
        self._remove: list[str] = []
        self._runner = runner
        self.reference = self.directory / "reference.pt"

    def measure(
        self,
        target: Target,
        *,
        compare: bool = True,
        allow_breaks: bool = True,
        outputs: bool = True,
        same_random: bool = True,
        alone: bool = False,
        weights: bool = False,
        own_errors: bool = False,
        renew: bool = False,
        codegen: bool = True,
        resized: bool = True,
    ) -> Trial:
        """Count the target's graphs and compare its outputs; the first run is the reference.

        With ``renew`` this run is the reference from now on, if it differs for other inputs only.
        Unless ``resized``, other inputs have the sizes of the program's own. Runs without
        ``codegen`` have a reference of their own.
        """
        reference = self.reference if codegen else self.directory / "reference_without_codegen.pt"
        order = {
            "allow_breaks": allow_breaks,
            "outputs": outputs,
            "same_random": same_random,
            "weights": weights,
            "own_errors": own_errors,
            "renew": renew,
            "codegen": codegen,
            "resized": resized,
            "keep": str(reference),
            "reference": str(reference) if compare else None,
        }
        answer, out = self.run(target, order, alone=alone)
        return Trial(
            record=Record.from_dict(answer.get("record") or {}),
            **{name: answer[name] for name in _SAID if name in answer},
            out=out,
            codegen=codegen,
            sites={
                name: Site(Path(path), module)
                for name, (path, module) in (answer.get("sites") or {}).items()
            },
            answer=answer,
        )

    @contextlib.contextmanager
    def beside(self, target: Target, data: bytes) -> Iterator[Target]:
        """Yield the same run of another text, in a temporary file beside the target.

        Raises ``OSError`` if the file cannot be written.
        """
        copy = target.trial(self.runs + 1)
        anothers = os.path.lexists(copy.path)
        try:
            # Inside ``try``: an interrupt may come as soon as the file exists.
            try:
                handle = os.open(copy.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                copy, anothers = target.trial(self.runs + 1, os.urandom(3).hex()), False
                handle = os.open(copy.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._remove = [str(copy.path.absolute())]
            with open(handle, "wb") as file:
                file.write(data if data.endswith(b"\n") else data + b"\n")
                file.write(f"{_MARK}{self.directory}\n".encode())
            yield copy
        finally:
            if not anothers:
                copy.path.unlink(missing_ok=True)
            self._remove = []

    def tidy(self, target: Target) -> None:
        """Remove the copies beside a target that a killed command left."""
        for path in target.path.parent.glob("*_trial*.py"):
            if not path.name.startswith(f"{target.stem}_trial") or path.is_symlink():
                continue
            with contextlib.suppress(OSError):
                last = path.read_bytes().rstrip().rpartition(b"\n")[2].decode(errors="replace")
                if last.startswith(_MARK) and is_left(Path(last.removeprefix(_MARK))):
                    path.unlink()

    def run(
        self, target: Target, order: dict[str, Any], *, alone: bool = False
    ) -> tuple[dict[str, Any], str]:
        """Run an order; a process that dies or hangs gives an answer with ``error``.

        ``alone`` starts a new Python; else the process is a fork of one that has imported torch,
        unless the program reads the environment itself: torch reads it when it is imported.
        """
        alone = alone or b"environ" in target.path.read_bytes()
        self.runs += 1
        order |= {
            "path": str(target.path),
            "cwd": os.getcwd(),
            "test": target.test,
            "arguments": list(target.arguments),
        }
        ended = self._runner.call(_WORK, order, fork=not alone, remove=self._remove)
        said = ended.out + ended.err
        if ended.code is None:
            return {"error": f"it did not end within {self._runner.timeout:g} s"}, said
        if ended.answer is None:
            last = (ended.last(1) or ["nothing was printed"])[0]
            return {"error": f"the process ended with {ended.code}: {last[:200]}"}, said
        start, end = ended.answer.get("said") or (0, 0)
        printed = self._runner.out.read_bytes()[start:end]
        lines = [*printed.decode(errors="replace").splitlines(), *ended.answer.get("logged", ())]
        return ended.answer | {"lines": lines}, said


@contextlib.contextmanager
def bench(timeout: float) -> Iterator[Bench]:
    """Yield a bench whose directory is removed at the end of the block."""
    with runner(timeout) as found:
        yield Bench(found)

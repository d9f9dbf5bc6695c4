"""One run of the program in a fresh process, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_graphbreak.record import Record
from pytest_graphbreak.repair.build import Site
from pytest_graphbreak.repair.target import Target


@dataclass(frozen=True, slots=True)
class Trial:
    """What a run did. ``error`` is why it failed, ``mismatch`` what differs from the original."""

    record: Record
    error: str | None = None
    mismatch: str | None = None
    compared: int = 0
    seconds: float = 0.0
    warm: float | None = None
    trained: bool = False
    fullgraph: bool = False
    entries: int = 0
    out: str = ""
    sites: Mapping[str, Site] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """What the program printed while it was watched; a test's own is pytest's to keep."""
        return list(self.answer.get("lines") or ())

    @property
    def varies(self) -> list[dict[str, Any]]:
        """Which sizes vary from call to call (``sizes.told``)."""
        return list(self.answer.get("varies") or ())

    @property
    def floats(self) -> bool:
        """Whether a Python float among the arguments varies from call to call."""
        return bool(self.answer.get("floats"))

    @property
    def same(self) -> bool:
        """Whether it ran, and gave what the original gives."""
        return self.error is None and self.mismatch is None


class Bench:
    """Runs targets in fresh processes. Its files live in a directory that goes with it."""

    def __init__(
        self, directory: Path, timeout: float, server: subprocess.Popen[str] | None = None
    ) -> None:
        self.runs = 0
        self._directory = directory
        self._timeout = timeout
        self._server = server
        self.reference = directory / "reference.pt"

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
    ) -> Trial:
        """Count the target's graphs and compare its outputs; the first run is the reference."""
        order = {
            "allow_breaks": allow_breaks,
            "outputs": outputs,
            "same_random": same_random,
            "weights": weights,
            "keep": str(self.reference),
            "reference": str(self.reference) if compare else None,
        }
        answer, out = self.run(target, order, alone=alone)
        return Trial(
            record=Record.from_dict(answer.get("record") or {}),
            error=answer.get("error"),
            mismatch=answer.get("mismatch"),
            compared=answer.get("compared", 0),
            seconds=answer.get("seconds", 0.0),
            warm=answer.get("warm"),
            trained=answer.get("trained", False),
            fullgraph=answer.get("fullgraph", False),
            entries=answer.get("entries", 0),
            out=out,
            sites={
                name: Site(Path(path), module)
                for name, (path, module) in (answer.get("sites") or {}).items()
            },
            answer=answer,
        )

    def run(
        self, target: Target, order: dict[str, Any], *, alone: bool = False
    ) -> tuple[dict[str, Any], str]:
        """Run an order; a process that dies or hangs gives an answer with ``error``.

        ``alone`` starts Python anew; else the process is a fork of one that has
        imported torch, unless the program reads the environment for itself: torch
        reads it when it is imported.
        """
        alone = alone or b"environ" in target.path.read_bytes()
        self.runs += 1
        paper = self._directory / f"order{self.runs}.json"
        answer = self._directory / f"answer{self.runs}.json"
        order |= {
            "path": str(target.path),
            "cwd": os.getcwd(),
            "test": target.test,
            "arguments": list(target.arguments),
            "answer": str(answer),
        }
        paper.write_text(json.dumps(order), encoding="utf-8")
        out = self._directory / f"out{self.runs}.txt"
        code = self._spawned(paper, out) if alone else self._forked(paper, out)
        written = out.read_bytes() if out.is_file() else b""
        errors = Path(f"{out}.err")
        said = written.decode(errors="replace")
        said += errors.read_text(encoding="utf-8", errors="replace") if errors.is_file() else ""
        if code is None:
            return {"error": f"it did not end within {self._timeout:.0f} s"}, said
        if not answer.is_file():
            last = said.strip().splitlines()[-1:] or [""]
            return {"error": f"the process ended with {code}: {last[0][:200]}"}, said
        found = json.loads(answer.read_text(encoding="utf-8"))
        start, end = found.get("said") or (0, 0)
        found["lines"] = written[start:end].decode(errors="replace").splitlines()
        return found, said

    def _spawned(self, paper: Path, out: Path) -> int | None:
        """A Python of its own. The exit code, or None after the time is over."""
        with open(out, "wb") as sink, open(f"{out}.err", "wb") as errors:
            process = subprocess.Popen(
                [*_python("child"), str(paper)],
                stdout=sink,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        try:
            return process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                _kill(process.pid)
                process.wait()

    def _forked(self, paper: Path, out: Path) -> int | None:
        """A fork of the server, which is started for the first. As ``_spawned``."""
        if self._server is None:
            self._server = serve()
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{paper}\t{out}\n")
        server.stdin.flush()
        pid = server.stdout.readline()
        if not pid:
            raise RuntimeError("the process that runs the trials ended; try again")
        done = False
        watch = threading.Timer(self._timeout, _kill, (int(pid),))
        watch.start()
        try:
            code = int(server.stdout.readline())
            done = watch.is_alive()
        finally:
            watch.cancel()
            if not done:
                _kill(int(pid))
        return code if done else None

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            end(self._server)
            self._server = None


def serve() -> subprocess.Popen[str]:
    """The process that forks one for each run, out of reach of a Ctrl-C on the terminal."""
    return subprocess.Popen(
        _python("server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        text=True,
        start_new_session=True,
    )


def end(server: subprocess.Popen[str]) -> None:
    """End a server: at the end of its input it goes by itself, and clears up what torch made."""
    try:
        server.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        _kill(server.pid)
        server.communicate()


def _python(module: str) -> list[str]:
    """A command that runs a module of this package.

    Not by ``-m``, which looks for modules in the current directory first: a
    ``logging.py`` of the user's there would take the place of Python's own.
    """
    code = (
        "import sys; sys.path[0] = sys.prefix; import runpy; "
        f"runpy.run_module('{__package__}.{module}', run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code]


def _environment() -> dict[str, str]:
    return dict(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1"}


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def bench(timeout: float) -> Iterator[Bench]:
    """A bench whose directory is gone afterwards, however the block ends."""
    with tempfile.TemporaryDirectory(prefix="graphbreak-") as directory:
        desk = Bench(Path(directory), timeout)
        try:
            yield desk
        finally:
            desk.close()

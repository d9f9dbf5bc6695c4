"""A situation: a program before and after a change, and the tests that run it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data"
"""A folder for each situation: what was recorded, and what users see of it."""


Changes = tuple[tuple[str, str], ...]
"""Texts, and what takes their place."""


@dataclass(frozen=True)
class Situation:
    """A small program under a test, and the change that the gate is to judge.

    ``program`` is the module ``name``, ``tests`` the test file that runs it: without one, a
    test that calls its ``run``, under a ``mark`` of pytest if there is one. ``changes`` are texts
    of both and what takes their place in the run that is judged; ``new`` says that there was none
    before, and so no baseline. ``ini`` are lines of its ini file, ``options`` what is typed,
    ``baseline`` texts of the recorded baseline and what takes their place. ``shown`` keeps what
    pytest shows of the real run, too.
    """

    name: str
    program: str
    changes: Changes = ()
    tests: str = ""
    mark: str = ""
    new: bool = False
    ini: tuple[str, ...] = ()
    options: tuple[str, ...] = ("--graph-budget",)
    baseline: Changes = ()
    shown: bool = False

    @property
    def test_file(self) -> str:
        return f"test_{self.name}.py"

    @property
    def folder(self) -> Path:
        return DATA / self.name

    @property
    def is_compared(self) -> bool:
        """Whether there is a run before the one that is judged."""
        return not self.new

    def write(self, directory: Path, *, changed: bool) -> None:
        """Write its program, its test file and an ini file into a directory."""
        tests = self.tests or (
            (f"import pytest\n\n@pytest.mark.{self.mark}\n" if self.mark else "")
            + f"def test_{self.name}():\n    import {self.name}\n\n    {self.name}.run()\n"
        )
        texts = {f"{self.name}.py": self.program, self.test_file: tests}
        texts = {name: textwrap.dedent(text).lstrip("\n") for name, text in texts.items()}
        for old, new in self.changes if changed else ():
            assert any(old in text for text in texts.values()), (self.name, old)
            texts = {name: text.replace(old, new) for name, text in texts.items()}
        for name, text in texts.items():
            (directory / name).write_text(text)
        ini = "\n".join(("[pytest]", *(self.ini if changed else ()), ""))
        (directory / "pytest.ini").write_text(ini)


def situations() -> list[Situation]:
    """All of them, in the order of their names."""
    from tests.golden.programs import jax_programs, torch_programs, xla_programs

    found = [*torch_programs.ALL, *xla_programs.ALL, *jax_programs.ALL]
    return sorted(found, key=lambda one: one.name)


def of_compiler(name: str) -> list[Situation]:
    """Those that ``torch``, ``torch_xla`` or ``jax`` records."""
    import importlib

    short = {"torch_xla": "xla"}.get(name, name)
    module = importlib.import_module(f"tests.golden.programs.{short}_programs")
    return sorted(module.ALL, key=lambda one: one.name)

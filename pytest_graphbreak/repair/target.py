"""The target of a run: a script with its arguments, or one test by its node id.

A command makes it of what was typed (``parse``), a ``trial.Bench`` runs it. Files that are written
for it are named after it: ``model_fixed.py`` (``beside``), ``repros/model_repro_1.py`` (``stem``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.text.errors import UserError

_TEST_FILE: Final = re.compile(r"test_.*|.*_test|tests?")
"""Stems of files that pytest collects, ``test_model`` and ``model_test``; and ``test``, to which
our suffix would be added: ``test_fixed``."""


class TargetError(UserError):
    """Raised if the user named something that cannot be run."""


class Target(Struct, frozen=True):
    """A file and how to run it. ``test`` is the part after ``::``, empty for a script."""

    path: Path
    test: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The target as a reader of this checkout would type it."""
        path = self.path.absolute()
        here = Path.cwd()
        name = path.relative_to(here) if path.is_relative_to(here) else self.path
        return f"{name}::{self.test}" if self.test else str(name)

    @property
    def stem(self) -> str:
        """The beginning of the names of files that are written for the target.

        pytest shall not collect these. So ``test_`` and ``_test`` go if the target is a test, or if
        its file is one that pytest collects:

        ==================  ===========
        file                stem
        ==================  ===========
        ``model.py``        ``model``
        ``test_model.py``   ``model``
        ``model_test.py``   ``model``
        ``tests.py``        ``a_tests``
        ==================  ===========
        """
        stem = self.path.stem
        if not self.test and not _TEST_FILE.fullmatch(stem):
            return stem
        words = stem.split("_")
        while words[1:] and words[0] in ("test", "tests"):
            del words[0]
        while words[1:] and words[-1] in ("test", "tests"):
            del words[-1]
        untested = "_".join(words)
        return f"a_{untested}" if untested.startswith("test") else untested

    def beside(self, suffix: str) -> Target:
        """Return the same run of another file beside it: ``model.py`` -> ``model_fixed.py``."""
        return replace(self, path=self.path.with_name(f"{self.stem}{suffix}.py"))


def parse(text: str, arguments: Sequence[str] = ()) -> Target:
    """Return the target that was typed: ``train.py``, or ``tests/test_a.py::test_b[3]``.

    Raises ``TargetError``, which says what is wrong.
    """
    name, _, test = text.partition("::")
    path = Path(name)
    if not path.is_file():
        raise TargetError(f"{name}: no such file; give a script, or a test as FILE::TEST")
    if path.suffix != ".py":
        raise TargetError(f"{name}: not a Python file; give a script, or a test as FILE::TEST")
    if test and arguments:
        raise TargetError(f"{text}: a test takes no arguments")
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise TargetError(f"{name}: {error.strerror or error}") from None
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{name}: not valid Python: {error}") from None
    return Target(path, test, tuple(arguments))

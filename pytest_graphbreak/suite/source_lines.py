"""Finds out in a test's source why code is no longer compiled, or runs more often."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from pytest_graphbreak.judging.edited import EditedLine
from pytest_graphbreak.layers import arguments, origins, plain_calls, uncompiled
from pytest_graphbreak.layers.statements import called_in
from pytest_graphbreak.model.places import places
from pytest_graphbreak.model.record import NOWHERE, Frame
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.report.footer import SourceLines
from pytest_graphbreak.suite.changed_lines import changed_since, edited_since

if TYPE_CHECKING:
    import pytest

    from pytest_graphbreak.config.settings import Settings


_MOST_LOOPS = 5
"""The number of lines that are shown for what runs a line so often."""


class OwnSourceLines(SourceLines):
    """Source lines from the files of this machine. They are only read for a failure."""

    def __init__(self, item: pytest.Item, settings: Settings, baseline: Path | None = None) -> None:
        self._item = item
        self._baseline = baseline
        self._root = settings.root
        self._places = places(settings.root)
        name = item.name.partition("[")[0]
        self._test = Line(str(item.path), (item.location[1] or 0) + 1, name)

    def defined(self, function: Frame) -> Frame:
        found = self._places.defined(self._line(function).file, function.function)
        return function if found is None else found

    def uncompiled(self, function: Frame) -> Frame:
        if disabled := self._places.disabled(self._line(function).file, function.function):
            return disabled
        return self._frame(
            uncompiled.uncompiled(function.function, self._test, self._places.lines, self._helper)
        )

    def compiles(self, function: Frame = NOWHERE) -> tuple[Frame, ...]:
        names = [self._line(function).name, *sorted(called_in(function.code))]
        for name in dict.fromkeys(names):
            if found := uncompiled.compiles(
                self._test, self._places.lines, self._helper, name, self._files
            ):
                return tuple(map(self._frame, found))
        return ()

    def disables(self, place: Frame) -> Frame:
        return self._frame(uncompiled.disables(place.code, self._files, self._places.lines))

    def uses(self, name: str) -> tuple[Frame, ...]:
        return tuple(map(self._frame, uncompiled.uses(name, self._files, self._places.lines)))

    def feeding(self, place: Frame) -> tuple[Frame, ...]:
        found = arguments.feeding(self._line(place), self._files, self._places.lines)
        return tuple(map(self._frame, islice(dict.fromkeys(found), _MOST_LOOPS)))

    def replaced(self, place: Frame) -> Frame:
        return self._frame(origins.replaced(self._line(place), self._test, self._places.lines))

    def repeated(self, place: Frame) -> tuple[Frame, ...]:
        found = origins.repeated(self._line(place), self._test, self._places.lines)
        loops = uncompiled.loops(self._test, self._places.lines, self._helper)
        return tuple(map(self._frame, islice(dict.fromkeys((*found, *loops)), _MOST_LOOPS)))

    def plain_call(self) -> Frame:
        return self._frame(self._plain_call.line if self._plain_call else None)

    @property
    def only_compiled(self) -> bool:
        """Whether nothing but compiled functions can run the model of the test."""
        return self._plain_call is None

    @property
    def calls_plain(self) -> bool:
        """Whether the test also calls what it compiles without the compiler."""
        return self._plain_call is not None and self._plain_call.certain

    @cached_property
    def edited(self) -> Sequence[EditedLine]:
        """What was edited since the baseline was committed; nothing if git does not know it."""
        return edited_since(self._root, self._baseline) if self._baseline else ()

    @cached_property
    def _plain_call(self) -> plain_calls.PlainCall | None:
        return plain_calls.plain_call(
            self._test, self._places.lines, self._helper, self._fixtures()
        )

    def handed(self, place: Frame) -> Frame:
        line = self._line(place)
        found = origins.called(line, self._places.lines)
        return self._frame(found or origins.handed_over(line, self._test, self._places.lines))

    def resets(self) -> Frame:
        return self._frame(uncompiled.resets(self._test, self._places.lines, self._helper))

    def changed(self, near: Sequence[Frame]) -> tuple[str, tuple[Frame, ...]]:
        if self._baseline is None:
            return "", ()
        commit, lines, _ = changed_since(self._root, self._baseline)
        own = (Path(file).relative_to(self._root).as_posix() for file in self._files)
        files = dict.fromkeys((*(frame.file for frame in near), *own))
        found = [
            self._places.frame(str(self._root / file), line)
            for file in files
            for line in lines.get(file, ())
        ]
        functions = {frame.key[:2] for frame in near}
        found.sort(key=lambda frame: frame.key[:2] not in functions)
        return commit, tuple(frame for frame in found if frame.code)

    def _fixtures(self) -> dict[str, Line]:
        """Return the functions of the fixtures of the test, without those of pytest itself."""
        info = getattr(self._item, "_fixtureinfo", None)
        found = {} if info is None else info.name2fixturedefs
        return {
            name: Line(code.co_filename, code.co_firstlineno, code.co_name)
            for name, (*_, definition) in found.items()
            if (code := getattr(definition.func, "__code__", None))
            and not definition.func.__module__.startswith("_pytest.")
        }

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """The file of the test, and those of the project's modules from which it takes names."""
        modules = {one.__file__: one for one in _modules() if getattr(one, "__file__", None)}
        known = vars(modules[self._test.file]) if self._test.file in modules else {}
        named = (sys.modules.get(getattr(one, "__module__", "")) for one in [*known.values()])
        taken = (one for one in (*named, *known.values()) if isinstance(one, ModuleType))
        files = (str(getattr(one, "__file__", None) or "") for one in taken)
        return tuple(dict.fromkeys((self._test.file, *filter(self._is_own, files))))

    def _is_own(self, file: str) -> bool:
        return Path(file).is_relative_to(self._root) and not arguments.is_library(file)

    def _helper(self, file: str, name: str) -> Line | None:
        """Return the ``def`` of what a file calls: ``run``, ``tools.run``, ``Net.run``."""
        found: object = next((one for one in _modules() if vars(one).get("__file__") == file), None)
        for part in name.split("."):
            known = isinstance(found, ModuleType | type)
            found = inspect.getattr_static(found, part, None) if known else None
            found = getattr(found, "__func__", found)  # of a classmethod or staticmethod
        found = inspect.unwrap(found) if isinstance(found, FunctionType) else None
        if not isinstance(found, FunctionType):
            return None
        code = found.__code__
        if not self._is_own(code.co_filename):
            return None
        return Line(code.co_filename, code.co_firstlineno, code.co_name)

    def _line(self, frame: Frame) -> Line:
        named = (part for part in reversed(frame.function.split(".")) if "<" not in part)
        return Line(str(self._root / frame.file), frame.line, next(named, ""), frame.code)

    def _frame(self, line: Line | None) -> Frame:
        return self._places.frame(*line) if line else NOWHERE


def _modules() -> list[ModuleType]:
    return [one for one in [*sys.modules.values()] if isinstance(one, ModuleType)]

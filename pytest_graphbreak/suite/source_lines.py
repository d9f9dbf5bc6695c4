"""Finds out in a test's source why code is no longer compiled, or runs more often."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from pytest_graphbreak.layers import origins, plain_calls, uncompiled
from pytest_graphbreak.model.places import places
from pytest_graphbreak.model.record import NOWHERE, Frame
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.report.footer import SourceLines

if TYPE_CHECKING:
    import pytest

    from pytest_graphbreak.config.settings import Settings


class OwnSourceLines(SourceLines):
    """Source lines from the files of this machine. They are only read for a failure."""

    def __init__(self, item: pytest.Item, settings: Settings) -> None:
        self._item = item
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

    def compiles(self) -> Frame:
        return self._frame(uncompiled.compiles(self._test, self._places.lines))

    def replaced(self, place: Frame) -> Frame:
        return self._frame(origins.replaced(self._line(place), self._places.lines))

    def repeated(self, place: Frame) -> tuple[Frame, ...]:
        found = origins.repeated(self._line(place), self._test, self._places.lines)
        return tuple(map(self._frame, found))

    def plain_call(self) -> Frame:
        return self._frame(
            plain_calls.plain_call(self._test, self._places.lines, self._helper, self._fixtures())
        )

    def resets(self) -> Frame:
        return self._frame(uncompiled.resets(self._test, self._places.lines, self._helper))

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

    def _helper(self, file: str, name: str) -> Line | None:
        """Return the ``def`` of a function below the root that a module calls by a name."""
        modules = [one for one in [*sys.modules.values()] if isinstance(one, ModuleType)]
        names = next((vars(one) for one in modules if vars(one).get("__file__") == file), {})
        found = names.get(name)
        if not isinstance(found, FunctionType):
            return None
        code = found.__code__
        path = Path(code.co_filename)
        if not path.is_relative_to(self._root) or "site-packages" in path.parts:
            return None
        return Line(code.co_filename, code.co_firstlineno, code.co_name)

    def _line(self, frame: Frame) -> Line:
        return Line(str(self._root / frame.file), frame.line, frame.function, frame.code)

    def _frame(self, line: Line | None) -> Frame:
        return self._places.frame(*line) if line else NOWHERE

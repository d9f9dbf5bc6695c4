"""What is loaded, and what happens while a module is imported, once for each outermost import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest import mock

import pytest

from pytest_graphbreak.layers.imports import AroundImports, ImportWatch, is_extension, loaded

pytestmark = pytest.mark.once


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outer_one.py").write_text(
        "import inner_one\nfrom log_of import log\nlog.append('outer')"
    )
    (tmp_path / "inner_one.py").write_text("from log_of import log\nlog.append('inner')")
    (tmp_path / "raising_one.py").write_text("1 / 0")
    (tmp_path / "log_of.py").write_text("log = []")
    log: list[str] = importlib.import_module("log_of").log
    watch = AroundImports(lambda: log.append("before"), lambda: log.append("after"))
    watch.attach()
    yield log
    watch.detach()
    assert "exec_module" not in vars(SourceFileLoader)
    for name in ("outer_one", "inner_one", "raising_one", "log_of"):
        sys.modules.pop(name, None)


def test_what_is_imported_in_turn_is_part_of_the_outermost(log: list[str]) -> None:
    module = importlib.import_module("outer_one")
    assert log == ["before", "inner", "outer", "after"]
    assert "exec_module" not in vars(module.__spec__.loader)
    importlib.import_module("outer_one")  # it is loaded
    assert len(log) == 4


def test_an_import_that_fails_came_to_its_end(log: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("raising_one")
    importlib.import_module("inner_one")
    assert log == ["before", "after", "before", "inner", "after"]


def test_imports_of_other_threads_are_theirs(log: list[str]) -> None:
    thread = threading.Thread(target=importlib.import_module, args=("inner_one",))
    thread.start()
    thread.join()
    assert log == ["inner"]


def test_a_watch_is_told_whoever_finds_the_module(tmp_path: Path) -> None:
    """By Python's own finders, by a finder of somebody else's, by hand; and no finder is ours."""
    (tmp_path / "waited_one.py").write_text("import colorsys")
    told: list[int] = []
    watch = ImportWatch(["waited_one"], lambda: told.append(1))
    finders = [*sys.meta_path]
    watch.attach()
    try:
        assert sys.meta_path == finders
        spec = importlib.util.spec_from_file_location("waited_one", tmp_path / "waited_one.py")
        theirs = mock.Mock(find_spec=lambda name, *rest: spec if name == "waited_one" else None)
        with mock.patch.object(sys, "meta_path", [theirs, *finders]):
            importlib.import_module("waited_one")
        assert len(told) == 1
        spec.loader.exec_module(sys.modules.pop("waited_one"))
        assert len(told) == 2
    finally:
        watch.detach()


def test_who_imports_is_warned_and_a_traceback_shows_no_frame_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    (tmp_path / "warning_one.py").write_text(
        "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n1 / 0"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError) as raised:
            import warning_one  # type: ignore[import-not-found]  # noqa: F401
    assert [warning.filename for warning in caught] == [__file__]
    assert [str(entry.path) for entry in raised.traceback] == [
        __file__,
        str(tmp_path / "warning_one.py"),
    ]
    assert log == ["before", "after"]


def test_what_somebody_put_into_sys_modules_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes = (mock.Mock(), mock.MagicMock(spec=types.ModuleType), types.ModuleType("fake"))
    for fake in fakes:
        monkeypatch.setitem(sys.modules, "fake_one", fake)
        assert loaded("fake_one") is None
        assert not is_extension("fake_one")
    assert loaded("pathlib") is sys.modules["pathlib"]
    assert not is_extension("pathlib")
    extension = next(name for name in ("_ctypes", "_json", "msgspec._core") if is_extension(name))
    assert loaded(extension) is sys.modules[extension]

"""What happens while a module is imported is distinguished, once for each outermost import."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_graphbreak.layers.hooks import AroundImports

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
    assert watch not in sys.meta_path
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

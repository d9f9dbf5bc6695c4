"""The tests that a run collected, and which files completely, to find stale baseline entries.

This runs where tests are collected: in the only process, or in each xdist worker, which passes its
results to the controller when it ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from pytest_graphbreak.suite.markers import canonical

if TYPE_CHECKING:
    from pytest_graphbreak.model.report import Shard

PARTIAL = ("keyword", "markexpr", "lf", "stepwise", "maxfail", "deselect", "splits")
"""Options (by their ``dest``) that make a run incomplete; the last is pytest-split's."""


class CollectedTests(Struct):
    """The tests that were collected, after all deselection.

    ``complete_files`` are those from which nothing was deselected: what they lack in this run is
    gone. ``collected_whole`` are files and functions that were collected completely before any
    deselection, ``deselected_tests`` what was then left out; by these, ``graphbreak check`` judges
    many partial runs together. For a file with ``test_one`` and ``test_two``::

                               complete_files  collected_whole  deselected_tests
        pytest t.py            t.py            t.py
        pytest t.py -k one                     t.py             t.py::test_two
        pytest t.py::test_one                  t.py::test_one
    """

    nodeids: list[str] = []
    deselected: int = 0
    complete_files: list[str] = []
    collected_whole: list[str] = []
    deselected_tests: list[str] = []


class Collector:
    """A pytest plugin object that watches collection and fills a ``CollectedTests``.

    pytest reports the files, then deselects; a worker of xdist sends the result at its end.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.collected = CollectedTests()
        self._config = config
        self._partial = is_partial(config)
        self._is_collected: dict[str, bool] = {}
        """Whether a file was collected without an error."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Record the files that were collected, and whether each was collected completely."""
        report = yield
        if isinstance(collector, pytest.File) and not isinstance(collector, pytest.Package):
            file = file_of(collector.nodeid)
            is_whole = report.outcome == "passed"
            # A file may have two collectors: of its tests, and of its doctests.
            self._is_collected[file] = self._is_collected.get(file, True) and is_whole
        return report

    # The outermost: it sees the tests before all deselection, and after it.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        names = [canonical(item) for item in items]
        before = Counter(file_of(name) for name in names)
        # A file that lost all of its tests was also collected completely.
        empty = [
            file for file, is_whole in self._is_collected.items() if is_whole and file not in before
        ]
        self.collected.collected_whole = collected_whole(self._config, names, empty)
        yield
        self.collected.nodeids = [canonical(item) for item in items]
        selected = set(self.collected.nodeids)
        self.collected.deselected_tests = [name for name in names if name not in selected]
        after = Counter(file_of(name) for name in self.collected.nodeids)
        if not self._partial:
            complete = [file for file, count in before.items() if after[file] == count]
            self.collected.complete_files = sorted([*complete, *empty])

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.collected.deselected += len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["graphbreak"] = asdict(self.collected)


def shard(config: pytest.Config) -> Shard | None:
    """Return the part of the tests that this run took (pytest-split, pytest-shard), or None."""
    from pytest_graphbreak.model.report import Shard

    def option(name: str) -> Any:
        return config.getoption(name, default=None)

    if option("splits") and option("group"):
        return Shard(int(option("group")), int(option("splits")))
    if option("num_shards") and option("shard_id") is not None:
        return Shard(int(option("shard_id")) + 1, int(option("num_shards")))
    return None


def is_partial(config: pytest.Config) -> bool:
    """Return whether the command line asked for only some of the tests."""
    if any("::" in str(arg) for arg in config.args):
        return True
    return any(config.getoption(name, default=None) for name in PARTIAL)


def collected_whole(
    config: pytest.Config, nodeids: Iterable[str], empty: Iterable[str] = ()
) -> list[str]:
    """Return the files, or for node ids the functions, of which every test was collected.

    ``nodeids`` are the tests before any deselection, ``empty`` the files that have none. For
    ``pytest test_a.py::test_b test_c.py`` it is ``["test_c.py", "test_a.py::test_b"]``. ``--lf``
    prevents tests from being collected at all, so nothing is complete.
    """
    if config.getoption("lf", default=False):
        return []
    asked = [_typed_nodeid(config, str(arg)) for arg in config.args if "::" in str(arg)]
    narrowed = {file_of(name) for name in asked}
    collected = (*map(file_of, nodeids), *empty)
    files = {name: None for name in collected if name not in narrowed}
    functions = dict.fromkeys(nodeid.partition("[")[0] for nodeid in nodeids)
    return [
        *files,
        *(
            name
            for name in functions
            if any(name == prefix or name.startswith(f"{prefix}::") for prefix in asked)
        ),
    ]


def _typed_nodeid(config: pytest.Config, arg: str) -> str:
    """Return a node id of the command line, relative to the rootdir like those of pytest."""
    file, _, test = arg.partition("::")
    path = os.path.abspath(config.invocation_params.dir / file)
    return f"{Path(os.path.relpath(path, config.rootpath)).as_posix()}::{test}"


def is_asked_whole(config: pytest.Config, file: str) -> bool:
    """Return whether this run was asked for all tests of a file, named from the rootdir."""
    if is_partial(config):
        return False
    asked = (config.invocation_params.dir / arg for arg in config.args)
    return any((config.rootpath / file).is_relative_to(path) for path in asked)


def gone_files(config: pytest.Config, files: Iterable[str]) -> list[str]:
    """Return the test files that are gone from directories that this run collected completely."""
    return [
        file
        for file in files
        if is_asked_whole(config, file) and not (config.rootpath / file).exists()
    ]


def file_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]

"""A plugin of the runs that ``upgrade`` and ``bisect`` start: how far a run is, and whose code ran.

It writes both to files that the environment names; nothing else of the run is changed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pytest

PROGRESS: Final = "GRAPHBREAK_RUN_PROGRESS"
"""Names the file to which the progress of the run is written."""
OUTSIDE: Final = "GRAPHBREAK_RUN_OUTSIDE"
"""Names the file for modules that were imported from ``CHECKOUT`` ..."""
CHECKOUT: Final = "GRAPHBREAK_RUN_CHECKOUT"
"""... the user's own, in a run that is of another commit."""
MOST: Final = 20


class TestCounter:
    """Counts tests. In the controller of xdist, which sees the reports of all workers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._done: set[str] = set()
        self._most = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._most = len(session.items)
        self._write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._done.add(report.nodeid)
            self._write()

    def _write(self) -> None:
        most = f" of {self._most:,}" if self._most else ""
        with contextlib.suppress(OSError):
            Path(self._path).write_text(f"{len(self._done):,}{most} tests", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    if (path := os.environ.get(PROGRESS)) and not worker:
        config.pluginmanager.register(TestCounter(path), "graphbreak-progress")


def pytest_sessionfinish() -> None:
    """In a worker of xdist as well: there the tests ran."""
    path, checkout = os.environ.get(OUTSIDE), os.environ.get(CHECKOUT)
    if path and checkout and (found := outside(Path(checkout))):
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps(found), encoding="utf-8")


def outside(checkout: Path) -> dict[str, str]:
    """Modules of the user's checkout that were imported: top-level name to file.

    From the checkout itself, or as it was installed from there.
    """
    installed = installed_from(checkout)
    found: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        top = name.partition(".")[0]
        if not isinstance(file, str) or top in found or top == "pytest_graphbreak":
            continue
        path = Path(os.path.realpath(file))
        site = "site-packages" in path.parts or "dist-packages" in path.parts
        if (top in installed) if site else path.is_relative_to(checkout):
            found[top] = file
        if len(found) == MOST:
            break
    return found


def installed_from(checkout: Path) -> set[str]:
    """What is imported of distributions that were installed from this directory.

    By the file ``direct_url.json`` that installers write (PyPA's specification "Recording the
    Direct URL Origin of installed distributions").
    """
    homes = set()
    for one in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # what is damaged says nothing
            url = urlsplit(json.loads(one.read_text("direct_url.json") or "{}").get("url", ""))
            home = Path(os.path.realpath(unquote(url.path)))
            if url.scheme == "file" and home.is_relative_to(checkout):
                homes.add(one.metadata["Name"])
    if not homes:
        return set()
    names = importlib.metadata.packages_distributions()
    return {name for name, owners in names.items() if homes & set(owners)}

"""A plugin for the runs of ``upgrade`` and ``bisect``: records progress, and whose code ran.

It writes both to files that the environment names; nothing else in the run is changed.
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
"""The variable with the file that the progress of the run is written to."""
OUTSIDE: Final = "GRAPHBREAK_RUN_OUTSIDE"
"""The variable with the file for modules that were imported from ``CHECKOUT``."""
CHECKOUT: Final = "GRAPHBREAK_RUN_CHECKOUT"
"""The variable with the user's own checkout, in a run of another commit."""
MOST: Final = 20


class TestCounter:
    """Counts tests. With xdist it runs in the controller, which sees the reports of all workers."""

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
    """Write the imported modules; with xdist also in the workers, where the tests ran."""
    path, checkout = os.environ.get(OUTSIDE), os.environ.get(CHECKOUT)
    if path and checkout and (found := outside(Path(checkout))):
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps(found), encoding="utf-8")


def outside(checkout: Path) -> dict[str, str]:
    """Return the modules of the user's checkout that were imported: top-level name to file.

    They come from the checkout itself, or from packages that were installed from it.
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
    """Return the import names of distributions that were installed from this directory.

    They are found by the file ``direct_url.json`` that installers write (PyPA's specification
    "Recording the Direct URL Origin of installed distributions").
    """
    homes = set()
    for one in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # ignore damaged metadata
            url = urlsplit(json.loads(one.read_text("direct_url.json") or "{}").get("url", ""))
            home = Path(os.path.realpath(unquote(url.path)))
            if url.scheme == "file" and home.is_relative_to(checkout):
                homes.add(one.metadata["Name"])
    if not homes:
        return set()
    names = importlib.metadata.packages_distributions()
    return {name for name, owners in names.items() if homes & set(owners)}

"""Replays a recorded situation without its compiler, and gives back all that users see of it.

pytest and the plugin run as always; only what the observers saw is taken from the recorded
report (``Replay``). All else goes through the commands, as they are typed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from pytest_graphbreak import cli
from pytest_graphbreak.model.json import report_of
from pytest_graphbreak.model.record import Record
from tests.golden.runs import in_checkout, inside, pretty, run_pytest, shortened, steady
from tests.golden.situation import Situation

Plain = dict[str, Any]

CI: Final = {"CI": "true", "GITHUB_ACTIONS": "true"}
CONSTANT: Final = ("verdicts", "meant", "again", "plurals")
"""Keys of a page's data that are the same in each page."""
_PAGE_DATA: Final = re.compile(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', re.S)


class Replay:
    """A plugin of pytest: each test did what the recorded report says, and nothing runs."""

    def __init__(self, report: Plain) -> None:
        self.environment = report_of(report).environment
        self.tests = {test["nodeid"]: test for test in report["tests"]}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            vars(item)["runtest"] = partial(_ended, self.tests[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Fixtures of the test files do nothing, too."""
        if fixturedef.func.__module__.startswith("test_"):
            fixturedef.func = lambda **_: None  # type: ignore[misc]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        from pytest_graphbreak.suite.entry import ENTRY, add_leaks

        test = self.tests[item.nodeid]
        if call.when == "teardown" and ENTRY in item.stash:
            add_leaks(item.stash[ENTRY], test["leaks"], filter(None, [test["note"]]))
            item.stash[ENTRY] |= {
                phase: {"graphs": counts} for phase, counts in test["setup"]["phases"].items()
            }

    def window(self, root: Path, nodeid: str, **_: object) -> Window:
        return Window(self.tests[nodeid])

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Put what was recorded in the place of what would be measured."""
        ours, made = "pytest_graphbreak", self.environment
        with (
            mock.patch(f"{ours}.suite.leaks.Leaks.add_settings", lambda _, record: record),
            mock.patch(f"{ours}.suite.phases.TestWindow", self.window),
            mock.patch(f"{ours}.suite.session.environment", return_value=made),
            mock.patch(f"{ours}.suite.judging.version", made.versions.get),
            mock.patch(f"{ours}.measuring.absent.is_installed", return_value=True),
        ):
            yield


def _ended(test: Plain) -> None:
    """End as the test did. One that the gate failed, and a mark excused, has a verdict."""
    excused = test["outcome"] == "xfailed" and test["verdict"] == "none"
    if test["failed_by"] == "test" or test["block"] or excused:
        # No lines of ours, no directories. What a block says is in live.txt.
        pytest.fail("it failed by itself", pytrace=False)
    if test["outcome"] == "skipped":
        pytest.skip("it was skipped")


class Window:
    """The window of a test that closes on the recorded record."""

    def __init__(self, test: Plain) -> None:
        self._test = test
        self.around: Counter[str] = Counter()
        self.fixtures = Counter(test["setup"].get("own", {}))

    def call(self) -> None:
        pass

    def exclude(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> Record:
        return Record.from_dict({**self._test, "leaks": {}, "note": None})


def outputs(one: Situation) -> dict[str, str]:
    """All that users see of a situation, by the name of the file that keeps it."""
    with in_checkout() as directory:
        one.write(directory, changed=True)
        texts = dict(_texts(one, directory))
        return {name: steady(text, directory) for name, text in texts.items()}


def _texts(one: Situation, top: Path) -> Iterator[tuple[str, str]]:
    """Each file of a situation with its text; ``top`` is the checkout to work in."""
    after = read_json(one.folder / "after.json")
    (top / "baselines").mkdir(exist_ok=True)  # without it the gate does not begin
    if one.is_compared:
        shutil.copy(one.folder / "before.json", top / "before.json")
        typed(top, "accept", "before.json", "--yes")
        path = top / "baselines" / Path(one.test_file).with_suffix(".yaml")
        text = path.read_text() if path.exists() else "(none: no test compiled anything)\n"
        for old, new in one.baseline:
            assert old in text, (one.name, old)
            text = text.replace(old, new)
        if path.exists():
            path.write_text(text)
        yield "baseline.yaml", text
    replay = Replay(after)
    profile = f"-o graph_budget_profile={replay.environment.profile}"
    options = [*one.options, "--graph-budget-report=after.json", one.test_file]
    with replay.installed():
        # The text of a failure is in the annotation: here it would be there twice.
        with inside(top, CI, terminal=False) as shown:
            run_pytest(options, [replay], f"{profile} --tb=no")
        yield "ci.txt", shown.text
        with inside(top, {}, terminal=True) as shown:
            run_pytest(options, [replay], f"{profile} --color=yes")
        yield "terminal.txt", shown.text
        yield "after.json", pretty(read_json(top / "after.json")) + "\n"
    yield "commands.txt", "\n".join(_commands(one, top))
    yield from _pages(top)


def _commands(one: Situation, top: Path) -> Iterator[str]:
    """Commands as they are typed, and what they print."""
    lines = ["check after.json", "report after.json"]
    lines += ["accept after.json --dry-run", "explain after.json"]
    if one.is_compared:
        lines += ["compare before.json after.json", "check after.json --against before.json"]
    for line in lines:
        yield f"$ graphbreak {line}"
        yield typed(top, *line.split())


def _pages(top: Path) -> Iterator[tuple[str, str]]:
    names = {"markdown": "comment.md", "html": "page.html"}
    options = [word for option, name in names.items() for word in (f"--{option}", name)]
    typed(top, "report", "after.json", *options)
    yield "comment.md", (top / "comment.md").read_text()
    yield "page.json", page_data(top / "page.html")
    lines = typed(top, "explain", "--json", "after.json").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    yield "explain.json", "".join(pretty(shortened(one)) + "\n" for one in found)


def page_data(path: Path) -> str:
    """The data of a page, without what is the same in each."""
    data = _PAGE_DATA.search(path.read_text())
    assert data, "the page holds no data"
    page = json.loads(data[1])
    return pretty({key: value for key, value in page.items() if key not in CONSTANT}) + "\n"


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def typed(top: Path, *arguments: str) -> str:
    """Type a command of ours: what it prints, and its exit code where that is not 0."""
    with inside(top, {}, terminal=False) as shown:
        code = cli.main(arguments)
    return shown.text + (f"(exit {code})\n" if code else "")

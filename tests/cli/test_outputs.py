"""Files that a command was asked to write: one that it did not write before is left as it is."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_graphbreak.artifacts.union import union
from pytest_graphbreak.cli import COMMANDS, _parser, compare, main
from pytest_graphbreak.cli.messages import write_result
from pytest_graphbreak.model import json
from pytest_graphbreak.model.report import RunEnvironment, SessionReport
from pytest_graphbreak.report import html, markdown
from pytest_graphbreak.report.unjudged import as_markdown
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError

pytestmark = pytest.mark.pure


def outputs() -> Iterator[tuple[str, str]]:
    """Yield each command with each of its options that name a file to write."""
    for command in COMMANDS:
        (chosen,) = (
            action.choices[command]
            for action in _parser(command)._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        for action in chosen._actions:
            if action.metavar in ("F", "FILE"):
                yield command, action.option_strings[0]


OUTPUTS = list(outputs())


def test_every_output_is_found() -> None:
    words = Path(__file__).parents[2].joinpath("docs/reference/commands.md").read_text()
    assert {option for _, option in OUTPUTS} == {"--json", "--markdown", "--html", "--log"}
    assert len(OUTPUTS) > 9, "an output is an option with the metavar F"
    assert all(option in words for _, option in OUTPUTS)


@pytest.mark.parametrize(("command", "option"), OUTPUTS)
def test_a_file_of_somebody_else_is_refused(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s.py"
    script.write_text("print('it ran')\n")
    named = [script, script] if command in ("compare", "prove") else [script]
    with pytest.raises(SystemExit) as stop:
        main([command, option, *map(str, (script, *named))])
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert re.search(r"s\.py is not a \w+ written by graphbreak, and is left as it is", shown.err)
    assert script.read_text() == "print('it ran')\n"


REPORT = json.document(RunEnvironment(profile="cpu"), SessionReport(exit=0, collected=0), [])
NO_RUN = union([])
WRITTEN: dict[str, tuple[re.Pattern[bytes], Callable[[Path], object]]] = {
    "report": (files.REPORT, lambda path: json.write(path, REPORT)),
    "comment": (files.PAGE, lambda path: path.write_text(markdown.render([]))),
    "page": (files.PAGE, lambda path: path.write_text(html.render([], None))),
    "compare": (
        files.PAGE,
        lambda path: path.write_text(
            compare.comment(NO_RUN, NO_RUN, compare.compare(NO_RUN, NO_RUN))
        ),
    ),
    "script": (files.PAGE, lambda path: path.write_text(as_markdown("Graphs", []))),
    "result": (
        files.RESULT,
        lambda path: write_result(argparse.Namespace(json=str(path), command="export"), {"a": 1}),
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_was_written_before_is_replaced(kind: str, tmp_path: Path) -> None:
    mark, write = WRITTEN[kind]
    path = tmp_path / "out"
    write(path)
    files.refuse_foreign(path, mark)
    others = {files.REPORT, files.PAGE, files.RESULT, files.LOG, files.SCRIPT} - {mark}
    for other in others:
        with pytest.raises(UserError, match="is left as it is"):
            files.refuse_foreign(path, other)


def test_what_is_no_file_is_refused_and_what_loses_nothing_is_not(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "json").write_text('{"version": 1, "tests": []}\n')
    (tmp_path / "ours").write_text('{"version":1,"environment":{}}')
    (tmp_path / "link").symlink_to("ours")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    refused = {}
    for name in ("", "empty", "json", "ours", "link", "dangling", "pipe", "new", "json/below"):
        try:
            files.refuse_foreign(tmp_path / name, files.REPORT)
        except UserError as error:
            refused[name] = str(error).partition(" is ")[2].partition(",")[0]
    assert refused == {
        "": "a directory",
        "json": "not a report written by graphbreak",
        "link": "a symlink",
        "dangling": "a symlink",
    }


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    json.write(Path(os.devnull), REPORT)
    files.take_away(Path(os.devnull))
    assert files.is_stream(Path(os.devnull))

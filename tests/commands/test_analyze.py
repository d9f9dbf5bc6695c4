"""``graphbreak analyze``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.commands import analyze
from pytest_graphbreak.incoming import load_all
from tests.logs.test_bearing import whole
from tests.logs.writer import Style, Writer, broke, dynamo, join

LOGS = Path(__file__).parent.parent / "logs" / "data"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    analyze.add_arguments(parser)
    return analyze.run(parser.parse_args(list(arguments)))


def log(directory: Path, name: str = "run.log", text: bytes | None = None) -> str:
    path = directory / name
    path.write_bytes(text if text is not None else failing())
    return str(path)


def failing() -> bytes:
    plugin = Writer()
    return join(
        [*plugin.graph(1), *plugin.graph(2, fails_after="shlo_compiler_cleaned"), *plugin.graph(3)]
    )


def entries(path: Path) -> list[Any]:
    data = json.loads(path.read_text())
    assert data["version"] == 1
    tests: list[Any] = data["tests"]
    return tests


def test_counts_failures_and_doubts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(log(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "3 graphs (certain: headers): 2 lowered, 1 failed" in out
    assert "after shlo_compiler_cleaned: Failed to convert from SHLO to TTIR module" in out
    assert "doubt" in out
    assert "TTXLA_LOGGER_LEVEL=DEBUG" in out
    order = [out.index(part) for part in ("3 graphs", "  failed\n", "to know all of it, run")]
    assert order == sorted(order)


def test_json_has_every_key_and_what_only_logs_have(tmp_path: Path) -> None:
    path = tmp_path / "out" / "report.json"
    assert run(log(tmp_path), "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["nodeid"] == str(tmp_path / "run.log")
    assert entry["verdict"] == "none"
    assert entry["layers"] == ["tt"]
    assert entry["graphs"] == {"tt": 3}
    assert [graph["name"] for graph in entry["graph_list"]] == [
        f"SyncTensorsGraph.{number * 19 + 12}" for number in (1, 2, 3)
    ]
    assert len(entry["bearing"]) == 2
    assert entry["run"][-1] == "graphbreak analyze run.log"
    kept = entry["log"]
    assert (kept["attempted"], kept["completed"], kept["failed"]) == (3, 2, 1)
    assert kept["sure"] == "certain"
    assert kept["failures"][0]["after"] == "shlo_compiler_cleaned"
    assert load_all([str(path)])[0].tests[0]["graphs"] == {"tt": 3}


def test_a_log_that_bears_nothing_is_still_written(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert run(log(tmp_path, text=b"hello\n"), "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["graphs"] == {}
    assert entry["bearing"]


def test_a_log_that_bears_everything_has_no_doubts(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert run(log(tmp_path, text=whole()), "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["bearing"] == []
    assert entry["run"] == []


def test_every_graph_has_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LOGS / "example")
    path = tmp_path / "report.json"
    assert run("run.log", "--json", str(path)) == 0
    (entry,) = entries(path)
    found = {item["graph"]: item["lines"][0] for item in entry["log"]["sources"]}
    assert {number: line["line"] for number, line in found.items()} == {1: 11, 2: 13, 3: 14}
    assert found[1] == {
        "file": "net.py",
        "function": "Net.forward",
        "line": 11,
        "code": "scores = self.body(x)",
        "ops": 2,
    }


def test_markdown_is_sorted_by_frequency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("\n" * 11 + '    print("hi")\n' + "    y = x.item()\n")
    text = (
        broke("0/0", 12, 'print("hi")')
        + dynamo("0/0")
        + b"".join(
            broke(f"{number}/0", 13, "y = x.item()", "Unsupported Tensor.item() call")
            for number in (1, 2, 3)
        )
    )
    page = tmp_path / "report.md"
    assert run(log(tmp_path, text=text), "--markdown", str(page)) == 0
    written = page.read_text()
    assert written.index("**3x graph break") < written.index("**1x graph break")
    assert "net.py:13" in written
    assert "    y = x.item()" in written
    out = capsys.readouterr().out
    assert out.index("3x  graph break") < out.index("1x  graph break")


def test_markdown_shows_what_logs_say_and_does_not_obey_it(tmp_path: Path) -> None:
    bad = 'x = "</code><script>alert(1)</script>" | [a](javascript:b) ``` @everyone'
    page = tmp_path / "report.md"
    text = broke("0/0", 12, bad, "<img src=x> **bold** | table") + dynamo("0/0")
    assert run(log(tmp_path, text=text), "--markdown", str(page)) == 0
    outside = [line for line in page.read_text().split("\n") if not line.startswith("    ")]
    assert not any("<script>" in line or "<img" in line for line in outside)


def test_terminal_shows_and_does_not_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = broke("0/0", 12, "x\x1b]0;title\x07y", "bad \x9b31m reason") + dynamo("0/0")
    assert run(log(tmp_path, "::error ::x.log", text)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert not any(line.startswith("::") for line in out.split("\n"))


def test_several_logs_packed_or_not(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    packed = log(tmp_path, "b.log.gz", gzip.compress(failing()))
    plain = log(tmp_path, "a.log")
    assert run(plain, packed, str(LOGS / "torch-2.13.log.gz"), "--json", str(path)) == 0
    assert [entry["graphs"] for entry in entries(path)] == [{"tt": 3}, {"tt": 3}, {"dynamo": 16}]


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(failing())))
    assert run("-", "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["nodeid"] == "-"
    assert entry["graphs"] == {"tt": 3}


@pytest.mark.parametrize("name", ["none.log", ".", "a\0b"])
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is analysed when one of the logs is not there."""
    missing = str(tmp_path / name)
    assert run(log(tmp_path), missing, "--json", str(tmp_path / "report.json")) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "cannot be read" in captured.err
    assert not (tmp_path / "report.json").exists()


def test_what_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(log(tmp_path), "--json", str(tmp_path / "file" / "report.json")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_build_type_is_asked_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = tmp_path / "build"
    build.mkdir()
    (build / "CMakeCache.txt").write_text("CMAKE_BUILD_TYPE:STRING=Release\nTTMLIR_X:BOOL=ON\n")
    name = log(tmp_path)
    assert run(name, "--build", str(build)) == 0
    assert "built as Release" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert run(name) == 0
    assert "built as Release" in capsys.readouterr().out
    assert run(name, "--build", str(tmp_path)) == 2
    assert "CMakeCache.txt" in capsys.readouterr().err


def test_many_entries_are_counted_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dynamo("0/0") + b"".join(
        broke(f"{number}/0", number, f"line {number}") for number in range(1, 60)
    )
    assert run(log(tmp_path, text=text)) == 0
    out = capsys.readouterr().out
    assert "59 breaking places" in out
    assert "... and 39 more" in out


def test_headless_logs_say_how_sure_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = Writer(Style(headers=False, dialects=False))
    text = join([write for number in (1, 2, 3) for write in plugin.graph(number)])
    assert run(log(tmp_path, text=text)) == 0
    out = capsys.readouterr().out
    assert "3 graphs (sure: worked out from 27 END markers): 3 lowered" in out
    assert "9 in 3 graphs" in out

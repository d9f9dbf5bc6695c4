"""Reports in directories and archives: bounded, and nothing of an archive is believed."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from pytest_graphbreak.artifacts import containers
from pytest_graphbreak.artifacts.incoming import ReportError, load_all
from tests.reports import a_report, a_test

pytestmark = pytest.mark.pure

ONE, TWO = (json.dumps(a_report(a_test(f"t.py::{name}"))) for name in ("one", "two"))


def zipped(path: Path, **files: str) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return str(path)


def names(*paths: str | Path) -> list[str]:
    return [report.name for report in load_all(map(str, paths))]


def test_an_archive_as_github_keeps_it(tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "graphs.ZIP", **{"a__graphs.json": ONE, "graphs.json": TWO, "x.txt": ""}
    )
    first, second = load_all([path])
    assert (first.name, second.name) == (f"{path}/a/graphs.json", f"{path}/graphs.json")
    assert {first.path, second.path} == {path}
    assert second.tests[0].nodeid == "t.py::two"


def test_a_directory_with_reports_and_archives_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "graphs-n150" / "deep").mkdir(parents=True)
    (tmp_path / "graphs-n150" / "deep" / "graphs.json").write_text(ONE)
    (tmp_path / "graphs-n150" / "pytest.log").write_text("nothing for us")
    zipped(tmp_path / "graphs-n300.zip", **{"graphs.json": TWO})
    assert names(tmp_path) == [
        f"{tmp_path}/graphs-n300.zip/graphs.json",
        f"{tmp_path}/graphs-n150/deep/graphs.json",
    ]
    assert [report.name for report in load_all([str(tmp_path)], shown="run 7")] == [
        "run 7/graphs-n300.zip/graphs.json",
        "run 7/graphs-n150/deep/graphs.json",
    ]


def refused(path: str | Path) -> str:
    with pytest.raises(ReportError) as error:
        load_all([str(path)])
    return str(error.value)


def test_what_holds_no_report_is_an_error(tmp_path: Path) -> None:
    assert "no *.json and no *.zip is below this directory" in refused(tmp_path)
    assert "no *.json is in this archive" in refused(zipped(tmp_path / "a.zip", **{"x.log": ""}))
    (tmp_path / "b.zip").write_text("not an archive")
    assert "not a zip archive" in refused(tmp_path / "b.zip")


def test_json_of_another_program_is_skipped(tmp_path: Path) -> None:
    """Jobs keep other files beside a report; a report that is cut off is no such file."""
    path = zipped(tmp_path / "a.zip", **{"graphs.json": ONE, "perf.json": "{}"})
    assert [report.name for report in load_all([str(path)])] == [f"{path}/graphs.json"]
    cut = zipped(tmp_path / "b.zip", **{"graphs.json": ONE, "other.json": ONE[:-20]})
    assert f"{cut}/other.json: cannot be read" in refused(cut)


def test_a_link_out_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(ONE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "graphs.json").symlink_to(tmp_path / "secret")
    assert "graphs.json is a symbolic link" in refused(tmp_path / "in")


def test_a_pipe_named_as_an_archive_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.zip")
    assert "not a regular file" in refused(tmp_path / "a.zip")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes that an archive tells are not what counts."""
    monkeypatch.setattr(containers, "MOST_BYTES", 2**20)
    path = tmp_path / "a.zip"
    zipped(path, **{"graphs.json": " " * (2**20 + 1)})
    assert path.stat().st_size < 3000
    data = path.read_bytes()
    lying = data.replace((2**20 + 1).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    for written in (data, lying):
        path.write_bytes(written)
        assert "is larger than 1 MiB" in (said := refused(path)) or "cannot be unpacked" in said
    monkeypatch.setattr(containers, "MOST_UNPACKED", 2**20)
    many = {f"{number}.json": ONE + " " * 2**19 for number in range(4)}
    assert "more than 1 MiB are in it" in refused(zipped(tmp_path / "b.zip", **many))


def test_counts_of_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", **{f"{number}.json": ONE for number in range(3)})
    monkeypatch.setattr(containers, "MOST_FILES", 2)
    assert "more than 2 reports are in it" in refused(path)
    monkeypatch.setattr(containers, "_MOST_LISTED", 10)
    assert "lists more files than reports need" in refused(path)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(ONE)
    assert "more than 2 reports are below it" in refused(tmp_path)
    monkeypatch.setattr(containers, "MOST_SEEN", 1)
    assert "more than 1 files are below it" in refused(tmp_path)


@pytest.mark.parametrize("cut", [1, 10, 22, 60, 200])
def test_a_damaged_archive_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.zip"
    data = Path(zipped(path, **{"graphs.json": ONE})).read_bytes()
    path.write_bytes(data[:-cut])
    assert f"{path}: cannot be read" in refused(path)
    path.write_bytes(data[:40] + bytes(20) + data[60:])
    assert "cannot be" in refused(path)


@pytest.mark.parametrize("edits", [{50: b"\xff" * 10}, {6: b"\0\x08", 30: b"\xff"}])
def test_a_damaged_member_is_refused(tmp_path: Path, edits: dict[int, bytes]) -> None:
    """Data that are none of LZMA, and a name that is not the UTF-8 that its header promises."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("graphs.json", ONE)
    data = bytearray(path.read_bytes())
    for at, new in edits.items():
        data[at : at + len(new)] = new
    path.write_bytes(data)
    assert "graphs.json: cannot be unpacked" in refused(path)

"""Logs as they are read: what Docker wraps reads as if it were not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_graphbreak.text.lines import LONGEST, Source

pytestmark = pytest.mark.pure


def wrapped(*texts: str) -> bytes:
    lines = (
        json.dumps({"log": text, "stream": "stderr", "time": "2026-08-21T10:22:52Z"})
        for text in texts
    )
    return "".join(f"{line}\n" for line in lines).encode()


def content(tmp_path: Path, data: bytes) -> bytes:
    path = tmp_path / "run.log"
    path.write_bytes(data)
    with Source(str(path)) as source:
        return "".join(source).encode("latin-1")


def test_what_docker_wraps_reads_as_if_it_were_not(tmp_path: Path) -> None:
    data = wrapped('File "a.py", line 3\n', "half of ", "a line é\n")
    assert content(tmp_path, data).decode() == 'File "a.py", line 3\nhalf of a line é\n'


def test_lines_that_are_not_wrapped_stay(tmp_path: Path) -> None:
    torn = wrapped("cut")[:-9]
    data = wrapped("first\n") + b'plain\n{"log": 3}\n\xff\n' + torn
    assert content(tmp_path, data) == b'first\nplain\n{"log": 3}\n\xff\n' + torn


def test_json_of_another_kind_is_read_as_it_is(tmp_path: Path) -> None:
    data = b'{"logs": "x"}\n{"a": 1}\n'
    assert content(tmp_path, data) == data


def test_a_line_that_is_read_in_parts(tmp_path: Path) -> None:
    text = "x" * 5 * LONGEST
    assert content(tmp_path, wrapped(text, "\n")) == wrapped(text) + b"\n"

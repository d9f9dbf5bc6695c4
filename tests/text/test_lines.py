"""Logs as they are read, and what says how a log in another form becomes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.text.lines import LONGEST, Source

pytestmark = pytest.mark.pure


def test_what_docker_wraps_names_the_command_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b'{"log": "a line\\n", "stream": "stderr"}\n')
    with pytest.raises(ValueError, match=r"docker logs CONTAINER \| graphbreak analyze -"):
        Source(str(path))


def test_a_line_that_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("x" * 5 * LONGEST + "\n")
    with Source(str(path)) as source:
        parts = [*source]
    assert [len(part) for part in parts] == [LONGEST] * 5 + [1]

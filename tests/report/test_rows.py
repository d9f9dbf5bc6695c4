"""Source excerpts: only Python files of the checkout, only lines that the report knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.rows import CheckoutSources

pytestmark = pytest.mark.pure


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "model.py").write_text("".join(f"line_{number} = 1\n" for number in range(1, 31)))
    return root


def at(line: int, file: str = "model.py") -> Frame:
    return Frame(file, "f", line, f"line_{line} = 1")


def test_lines_around_the_place(root: Path) -> None:
    found = CheckoutSources(root).excerpt(at(10))
    assert found == (7, [f"line_{number} = 1" for number in range(7, 14)])


def test_at_the_edges(root: Path) -> None:
    first = CheckoutSources(root).excerpt(at(1))
    assert first is not None
    assert first[0] == 1
    assert len(first[1]) == 4
    last = CheckoutSources(root).excerpt(at(30))
    assert last is not None
    assert last[1][:4] == [f"line_{number} = 1" for number in range(27, 31)]


def test_another_version_of_the_file_is_not_shown(root: Path) -> None:
    assert CheckoutSources(root).excerpt(Frame("model.py", "f", 10, "other = 1")) is None
    assert CheckoutSources(root).excerpt(Frame("model.py", "f", 999, "line_999 = 1")) is None


def test_nowhere_without_a_checkout(root: Path) -> None:
    assert CheckoutSources(None).excerpt(at(10)) is None


@pytest.mark.parametrize(
    "file",
    [
        "../secret.py",
        "sub/../../secret.py",
        "link.py",
        "secret.txt",
        ".git/config",
        "\0.py",
        ".",
        "",
    ],
)
def test_nothing_else_of_this_machine_is_shown(file: str, root: Path) -> None:
    text = "".join(f"line_{number} = 1\n" for number in range(1, 31))
    (root.parent / "secret.py").write_text(text)
    (root / "secret.txt").write_text(text)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(text)
    (root / "link.py").symlink_to(root.parent / "secret.py")
    assert CheckoutSources(root).excerpt(at(10, file)) is None


def test_absolute_names_are_refused(root: Path) -> None:
    outside = root.parent / "secret.py"
    outside.write_text("".join(f"line_{number} = 1\n" for number in range(1, 31)))
    assert CheckoutSources(root).excerpt(at(10, str(outside))) is None


def test_files_that_are_no_text_are_not_shown(root: Path) -> None:
    (root / "bytes.py").write_bytes(b"\xff\xfe" * 40)
    (root / "large.py").write_text("line_1 = 1\n" * 400_000)
    assert CheckoutSources(root).excerpt(at(1, "bytes.py")) is None
    assert CheckoutSources(root).excerpt(at(1, "large.py")) is None

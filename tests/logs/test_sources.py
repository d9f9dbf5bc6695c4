"""Files that a log names, looked up where the log is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.model.places import Places

pytestmark = pytest.mark.pure


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(Places(tmp_path))


def test_files_of_another_machine(tmp_path: Path) -> None:
    """The user's own directory first, then the packages that are installed here."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(
        "class Net:\n    def forward(self):\n        mine()\n"
    )
    sources = Sources(Places(tmp_path))
    frame = sources.frame("/root/tt-xla/models/net.py", 3, "forward")
    assert (frame.file, frame.function, frame.code) == ("models/net.py", "Net.forward", "mine()")
    here = Path(pytest.__file__).parent / "__init__.py"
    assert sources.find("/elsewhere/lib/python3.12/site-packages/pytest/__init__.py") == str(here)
    (tmp_path / "pytest").mkdir()
    (tmp_path / "pytest" / "__init__.py").write_text("# a copy of the user's\n")
    assert Sources(Places(tmp_path)).find(
        "/elsewhere/lib/python3.12/site-packages/pytest/__init__.py"
    ) == str(tmp_path / "pytest" / "__init__.py")


def test_a_file_that_is_nowhere_keeps_its_name(sources: Sources) -> None:
    site = "/root/venv/lib/python3.12/site-packages/diffusers/models/unet.py"
    frame = sources.frame(site, 7, "torch_dynamo_resume_in_forward_at_5", "x = y")
    assert (frame.file, frame.function) == ("diffusers/models/unet.py", "forward")
    assert (frame.line, frame.code) == (7, "x = y")


def test_only_regular_python_files_are_opened(tmp_path: Path) -> None:
    """A log is text from others: it must not make us read a device or a pipe."""
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    (tmp_path / "secret.txt").write_text("secret\n")
    (tmp_path / "dir.py").mkdir()
    sources = Sources(Places(tmp_path))
    for name in ("/dev/zero", str(pipe), str(tmp_path / "secret.txt"), str(tmp_path / "dir.py")):
        assert sources.find(name) is None
        assert sources.frame(name, 1).code == ""
    assert sources.find("a\0.py") is None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of this machine that no log may show, beside the checkout."""
    (tmp_path / "checkout").mkdir()
    path = tmp_path / "settings.py"
    path.write_text("PASSWORD = 'hunter2'\n")
    return path


def test_a_log_shows_no_file_from_outside(secret: Path) -> None:
    checkout = secret.parent / "checkout"
    (checkout / "link.py").symlink_to(secret)
    (checkout / "linked").symlink_to(secret.parent)
    sources = Sources(Places(checkout))
    for name in (
        str(secret),
        "../settings.py",
        f"{checkout}/../settings.py",
        "/x/../../settings.py",
        "link.py",
        "linked/settings.py",
        "/elsewhere/lib/python3.12/site-packages/../settings.py",
        f"/lib/site-packages/{secret}",
        os.path.relpath(secret, Path(pytest.__file__).parent.parent),
        f"{Path(pytest.__file__).parent.parent}/{os.path.relpath(secret, pytest.__file__)}",
    ):
        assert sources.find(name) is None, name
        assert sources.definition(name, 1, "f").code == "", name
        assert sources.frame(name, 1).code == "", name


def test_other_roots_are_the_users_word(secret: Path) -> None:
    checkout = secret.parent / "checkout"
    sources = Sources(Places(checkout), [secret.parent])
    assert sources.frame(str(secret), 1).code == "PASSWORD = 'hunter2'"
    assert sources.frame("/root/there/settings.py", 1).code == "PASSWORD = 'hunter2'"


def test_a_file_that_goes_while_it_is_looked_at_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.py"
    file.write_text("x\n")
    known = Sources(Places(tmp_path), [tmp_path])
    assert known.find(str(file)) == str(file)
    isfile = os.path.isfile

    def goes(path: str) -> bool:
        found = isfile(path)
        file.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os.path, "isfile", goes)
    assert Sources(Places(tmp_path), [tmp_path]).find(str(file)) is None

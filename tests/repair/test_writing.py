"""The scripts that repro writes, as text, and where they say that files are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.build import BuildError, text_of
from pytest_graphbreak.repair.loading import Writer, located
from pytest_graphbreak.repair.repro import Answer, Repro, Script
from pytest_graphbreak.repair.target import Target

pytestmark = pytest.mark.once

ITEM = Break("dynamo", "Unsupported", Frame("net.py", "f", 3, "print(x)"), id="GB0059")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "checkout"
    (path / "repros").mkdir(parents=True)
    monkeypatch.chdir(path)
    return path


def writer(target: Target, *, as_test: bool = False) -> Writer:
    return Writer(target, "", {}, as_test, Path("repros"))


def test_a_program_that_cannot_be_cut_is_run_as_it_is(here: Path) -> None:
    (here / "net.py").write_text("import sys\nprint(__name__, sys.argv)\n")
    script = here / "repros" / "net_repro_1.py"
    script.write_text(writer(Target(Path("net.py"), arguments=("--deep", "3"))).whole(ITEM))
    assert script.read_text().startswith(
        "# Written by `graphbreak repro net.py`: the whole program."
    )
    out = subprocess.check_output([sys.executable, script], cwd="/", text=True)
    assert out == f"__main__ {[str(here / 'net.py'), '--deep', '3']}\n"


def test_a_test_that_cannot_be_cut_is_run_by_pytest(here: Path) -> None:
    (here / "test_net.py").write_text("def test_a(): print('it ran')\ndef test_b(): assert False\n")
    script = here / "repros" / "a.py"
    script.write_text(writer(Target(Path("test_net.py"), "test_a")).whole(ITEM))
    out = subprocess.check_output([sys.executable, script], cwd=here, text=True)
    assert "1 passed" in out
    text = writer(Target(Path("test_net.py"), "test_a"), as_test=True).whole(ITEM)
    assert "@pytest.mark.max_graphs(1, breaks=0)\ndef test_no_break():\n    main()\n" in text
    compile(text, "test_repro.py", "exec")


def test_a_file_of_another_directory_is_named_in_full(here: Path) -> None:
    inside = located(Path("models/net.py"), Path("repros"))
    assert inside == 'str(Path(__file__).resolve().parents[1] / "models" / "net.py")'
    outside = here.parent / "net.py"
    assert located(outside, Path("repros")) == repr(str(outside))


def test_a_source_that_cannot_be_read_is_an_error_of_building(here: Path) -> None:
    with pytest.raises(BuildError, match="No such file"):
        text_of(here / "gone.py")
    (here / "bad.py").write_bytes(b"x = '\xff'\n")
    with pytest.raises(BuildError):
        text_of(here / "bad.py")


class Interrupted(Repro):
    """Its first run is ended by Ctrl-C, when the script is there."""

    def __init__(self) -> None:
        pass

    def _found(self, path: Path, item: Break, cuts: Answer) -> Script:
        path.write_text("a script")
        raise KeyboardInterrupt


def test_a_script_whose_run_is_interrupted_does_not_stay(here: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Interrupted()._script(here / "net_repro_1.py", ITEM, {})
    assert [path.name for path in here.iterdir()] == ["repros"]

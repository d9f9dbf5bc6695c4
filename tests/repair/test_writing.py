"""Where the scripts that repro writes say that files are, and what stays of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.repro import Repro, Script
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.repair.writing import CutFunction, Writer, path_source

pytestmark = pytest.mark.pure

ITEM = Break("dynamo", "Unsupported", Frame("net.py", "f", 3, "print(x)"), id="GB0059")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "checkout"
    (path / "repros").mkdir(parents=True)
    monkeypatch.chdir(path)
    return path


def test_a_file_of_another_directory_is_named_in_full(here: Path) -> None:
    inside = path_source(Path("models/net.py"), Path("repros"))
    assert inside == 'str(Path(__file__).resolve().parents[1] / "models" / "net.py")'
    outside = here.parent / "net.py"
    assert path_source(outside, Path("repros")) == repr(str(outside))


@pytest.mark.parametrize("name", ["net.py", "my  net.py"])
def test_a_script_is_known_as_one_of_its_target(name: str, here: Path) -> None:
    """So that the next run replaces it; also one of a break that has no reason."""
    writer = Writer(Target(Path(name)), "", {}, as_test=False)
    script = here / "repros/net_repro_1.py"
    script.write_text(writer.whole(Break("dynamo", "", ITEM.where)))
    assert writer.has_written(script)
    assert not Writer(Target(Path("other.py")), "", {}, as_test=False).has_written(script)


class Interrupted(Repro):
    """Its first run is ended by Ctrl-C, when the script is there."""

    def __init__(self, path: Path) -> None:
        self.first = Trial(Record(breaks=(ITEM,)))
        self.lazy = []
        self._path = path

    def _paths(self) -> Iterator[Path]:
        yield self._path

    def _taken_out(self) -> dict[str, CutFunction]:
        return {}

    def _smallest(self, item: Break, functions: Mapping[str, CutFunction], path: Path) -> Script:
        path.write_text("a script")
        raise KeyboardInterrupt


def test_a_script_whose_run_is_interrupted_does_not_stay(here: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Interrupted(here / "net_repro_1.py").run(lambda *_: None))
    assert [path.name for path in here.iterdir()] == ["repros"]

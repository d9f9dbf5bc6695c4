"""``graphbreak repro``: the model is loaded as the program does, else restored from a file."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from cases.broken import BROKEN
from tests.conftest import TORCH, Serving
from tests.repair.conftest import Shop, opened, served

pytestmark = pytest.mark.once

NESTED = """
    import torch

    class Inner(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a = torch.nn.Linear(width, width)

        def forward(self, x):
            print("inner")
            return self.a(x)

    device = "cpu"
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(Inner(300)))
    net.to(device).eval()
    x = torch.randn(2, 300)
    model = torch.compile(net, backend="eager")
    with torch.no_grad():
        model(x)
"""


def test_large_inputs_are_in_a_file_and_the_model_is_not(shop: Shop) -> None:
    shop.write("a.py", NESTED)
    said = shop.run("repro", "a.py")
    assert said.code == 0, said.out + said.err
    assert "1.0 of Sequential by its path" in said.out
    assert shop.files() == {"a.py", "repros/a_repro_1.py", "repros/a_repro_1.pt"}
    text = (shop.path / "repros/a_repro_1.py").read_text()
    assert 'model = full_model.get_submodule("1.0")' in text
    assert "randn" not in text
    data = shop.path / "repros/a_repro_1.pt"
    assert data.stat().st_size < 10_000  # of the weights it would be 360 000
    with zipfile.ZipFile(data) as packed:
        pickled = next(name for name in packed.namelist() if name.endswith("data.pkl"))
        assert b"Inner" not in packed.read(pickled)


TRAINED = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)

        def forward(self, x):
            print("forward")
            return self.a(x)

    def main():
        model = Model()
        for one in model.parameters():
            one.data *= 2
        torch.compile(model, backend="eager")(torch.ones(1, 2))

    if __name__ == "__main__":
        main()
"""


def test_weights_are_those_that_the_program_compiles(shop: Shop) -> None:
    shop.write("a.py", TRAINED)
    said = shop.run("repro", "a.py")
    assert said.code == 0, said.out + said.err
    assert "Model as loaded" in said.out
    assert shop.files() == {"a.py", "repros/a_repro_1.py"}


STATE = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.ready = False

        def forward(self, x):
            if self.ready:
                print("ready")
            return x + 1

    def run(model):
        model.ready = True
        torch.compile(model, backend="eager")(torch.ones(1, 2))

    model = Model()
    run(model)
"""


def test_what_the_program_does_to_its_model_is_done(shop: Shop) -> None:
    shop.write("a.py", STATE)
    said = shop.run("repro", "a.py")
    assert said.code == 0, said.out + said.err
    assert "Model as loaded" in said.out


TESTS = """
    import pytest
    import torch

    class Model(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a = torch.nn.Linear(width, width)

        def forward(self, x):
            print("forward")
            return self.a(x)

    @pytest.fixture
    def width():
        return 2

    @pytest.fixture
    def made(request, width):
        return Model(width)

    @pytest.mark.parametrize("layers", [2])
    def test_built(width, layers):
        model = torch.compile(
            torch.nn.Sequential(*[Model(width) for _ in range(layers)]), backend="eager"
        )
        model(torch.ones(1, width))

    def test_given(made):
        torch.compile(made, backend="eager")(torch.ones(1, 2))

"""


@pytest.mark.nightly
def test_a_test_that_builds_the_model_in_its_body(shop: Shop) -> None:
    shop.write("test_a.py", TESTS)
    said = shop.run("repro", "test_a.py::test_built[2]", "--as-test", "--out", ".")
    assert said.code == 0, said.out + said.err
    assert "0 of Sequential by its path" in said.out
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "test_a_repro_1.py"], cwd=shop.path, capture_output=True, text=True
    )
    assert "GB0059" in done.stdout
    assert "1 failed" in done.stdout  # red until it is fixed


@pytest.mark.nightly
def test_a_model_that_a_fixture_makes_is_made_by_it(shop: Shop) -> None:
    shop.write("test_a.py", TESTS)
    said = shop.run("repro", "test_a.py::test_given", "--as-test")
    assert said.code == 0, said.out + said.err
    assert "Model as loaded" in said.out


@pytest.fixture
def shop_with_bigbird(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    serving: Serving,
) -> Iterator[Shop]:
    """Its runs are forks of a process that has imported the model too: one takes seconds."""
    modeling = "transformers.models.big_bird.modeling_big_bird"
    with serving("bigbird", [*TORCH, modeling]) as forks, contextmanager(served)(forks) as one:
        yield opened(tmp_path, monkeypatch, capsys, one)


@pytest.mark.nightly  # a large model
@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="Dynamo breaks in three times as many places there, which takes minutes",
)
def test_a_model_of_transformers_is_loaded_from_its_config(shop_with_bigbird: Shop) -> None:
    shop = shop_with_bigbird
    (shop.path / "bigbird.py").write_text(BROKEN["bigbird"])
    said = shop.run("repro", "bigbird.py")
    assert said.code == 0, said.out + said.err
    assert "encoder.layer.0.attention.self of BigBirdModel by its path" in said.out
    assert "the whole program" not in said.out
    text = (shop.path / "repros/bigbird_repro_1.py").read_text()
    assert 'model = full_model.get_submodule("encoder.layer.0.attention.self")' in text

"""``graphbreak repro``: the model is loaded as the program does."""

from __future__ import annotations

import zipfile

import pytest

from tests.repair.conftest import Shop

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
    said = shop.succeed("repro", "a.py")
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
    said = shop.succeed("repro", "a.py")
    assert "Model as loaded" in said.out
    assert shop.files() == {"a.py", "repros/a_repro_1.py"}  # no weights

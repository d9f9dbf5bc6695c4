"""Libraries that compile, as their users write it: a count that theirs agrees with, and a red line.

``tox -e engines`` runs them.
"""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import Suite

NETWORK = """
import pytest
import torch

COUNTED = []

def backend(graph, inputs):
    COUNTED.append(graph)
    return graph

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        hidden = self.hidden(x).relu()
        LOG
        return self.head(hidden)
"""

TENSORDICT = """
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

def run():
    modules = [
        TensorDictModule(Net(), in_keys=["x"], out_keys=["h"]),
        TensorDictModule(torch.nn.Linear(2, 2), in_keys=["h"], out_keys=["y"]),
    ]
    model = torch.compile(TensorDictSequential(*modules), backend=backend)
    for _ in range(2):
        model(TensorDict({"x": torch.ones(3, 4)}, batch_size=[3]))
"""

FABRIC = """
from lightning.fabric import Fabric

def run():
    fabric = Fabric(accelerator="cpu", devices=1)
    model = fabric.setup(torch.compile(Net(), backend=backend))
    for _ in range(2):
        fabric.backward(model(torch.ones(3, 4)).sum())
"""

TRAINER = """
import lightning
from torch.utils.data import DataLoader

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.compile(Net(), backend=backend)

    def training_step(self, batch, number):
        return self.net(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

def run():
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **options)
    trainer.fit(Module(), DataLoader(torch.ones(6, 4), batch_size=3))
"""

ACCELERATE = """
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin

def run():
    accelerator = Accelerator(cpu=True)
    model, optimizer = Net(), None
    model = accelerator.prepare(torch.compile(model, backend=backend))
    for _ in range(2):
        accelerator.backward(model(torch.ones(3, 4)).sum())
"""

TORCHAO = """
from torchao.quantization import Int8WeightOnlyConfig, quantize_

def run():
    model = Net().eval()
    quantize_(model, Int8WeightOnlyConfig())
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            compiled(torch.ones(3, 4))
"""

TEST = """
@pytest.mark.max_graphs(1, breaks=0, recompiles=0)
def test_it():
    run()
    assert len(COUNTED) == GRAPHS
"""

LIBRARIES = {
    "tensordict": TENSORDICT,
    "lightning": TRAINER,
    "lightning.fabric": FABRIC,
    "accelerate": ACCELERATE,
    "torchao": TORCHAO,
}


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_one_graph_and_a_print_that_is_red(suite: Suite, library: str) -> None:
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"needs {library}: tox -e engines")
    source = NETWORK + LIBRARIES[library] + TEST
    suite.write(source.replace("LOG", "pass").replace("GRAPHS", "1"))
    suite.run().assert_outcomes(passed=1)
    # Lightning and tensordict compile two functions around the network as well.
    graphs = 3 if library in ("lightning", "tensordict") else 2
    broken = source.replace("LOG", "print(hidden.mean().item())")
    suite.write(broken.replace("GRAPHS", str(graphs)))
    red = suite.run()
    red.assert_outcomes(failed=1)
    red.stdout.fnmatch_lines([f"graph budget: {graphs} dynamo graphs, the marker allows 1 *"])
    causes = [line for line in red.outlines if line.startswith("  + ")]
    assert len(causes) == 1, causes
    red.stdout.fnmatch_lines(["  + GB0124 *", "*test_it.py:* in Net.forward*"])

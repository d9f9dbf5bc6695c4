"""Libraries that compile, as their users write it: counts as torch counts them, and red lines.

``tox -e engines,engines-torchax`` runs them.
"""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import Suite

NETWORK = """
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.hidden(x).relu())


class Logged(Net):
    def forward(self, x):
        hidden = self.hidden(x).relu()
        print(hidden.mean().item())
        return self.head(hidden)


class Backend(CompileCounter):
    def __deepcopy__(self, memo):  # Fabric compiles again, with a copy of the arguments
        return self


@pytest.fixture
def backend():
    return Backend()
"""
PRINT = """

@pytest.mark.max_graphs(1, breaks=0, recompiles=0)
def test_clean(backend):
    run(Net(), backend)
    assert backend.frame_count == 1


@pytest.mark.max_graphs(1)
def test_print(backend, graph_budget):
    with graph_budget() as seen:
        run(Logged(), backend)
    assert seen.graphs == backend.frame_count
"""

TENSORDICT = """
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential


def run(net, backend, batches=(3, 3)):
    modules = [
        TensorDictModule(net, in_keys=["x"], out_keys=["h"]),
        TensorDictModule(torch.nn.Linear(2, 2), in_keys=["h"], out_keys=["y"]),
    ]
    model = torch.compile(TensorDictSequential(*modules), backend=backend)
    for batch in batches:
        model(TensorDict({"x": torch.ones(batch, 4)}, batch_size=[batch]))


@pytest.mark.max_graphs(2, recompiles=1)
def test_another_batch_size_is_one_graph_for_all_others(backend):
    run(Net(), backend, batches=(3, 5, 7))
    assert backend.frame_count == 2
"""

FABRIC = """
from lightning.fabric import Fabric


def run(net, backend):
    fabric = Fabric(accelerator="cpu", devices=1)
    model = fabric.setup(torch.compile(net, backend=backend))
    for _ in range(2):
        fabric.backward(model(torch.ones(3, 4)).sum())
"""

TRAINER = """
import lightning
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    def __init__(self, net, backend):
        super().__init__()
        self.net = torch.compile(net, backend=backend)

    def training_step(self, batch, number):
        return self.net(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def run(net, backend, rows=6):
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **options)
    trainer.fit(Module(net, backend), DataLoader(torch.ones(rows, 4), batch_size=3))


@pytest.mark.max_graphs(1)
def test_the_last_batch_is_smaller(backend):
    run(Net(), backend, rows=5)
    assert backend.frame_count == 2
"""

ACCELERATE = """
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin


def run(net, backend):
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.compile(net, backend=backend))
    for _ in range(2):
        accelerator.backward(model(torch.ones(3, 4)).sum())


class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Net() for _ in range(3))

    def forward(self, x):
        return [block(x) for block in self.blocks]


@pytest.mark.max_graphs(1, breaks=0, recompiles=0, executions=3)
def test_blocks_share_a_graph():
    before = counters["stats"]["unique_graphs"]
    plugin = TorchDynamoPlugin(backend="eager", use_regional_compilation=True)
    Accelerator(cpu=True, dynamo_plugin=plugin).prepare(Blocks())(torch.ones(3, 4))
    assert counters["stats"]["unique_graphs"] == before + 1
"""

TORCHAO = """
from torchao.quantization import Int8WeightOnlyConfig, quantize_


def run(net, backend):
    quantize_(net.eval(), Int8WeightOnlyConfig())
    compiled = torch.compile(net, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            compiled(torch.ones(3, 4))


def test_a_model_that_is_quantized_after_its_warm_up(backend, graph_budget):
    net = Net().eval()
    compiled = torch.compile(net, backend=backend)
    with torch.no_grad():
        compiled(torch.ones(3, 4))
        quantize_(net, Int8WeightOnlyConfig())
        with graph_budget(max_graphs=0):
            compiled(torch.ones(3, 4))
"""

DIFFUSERS = """
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel


def pipeline(backend):
    unet = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 8),
        norm_num_groups=2,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    unet.compile(backend=backend)
    pipe = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=10))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def sample(pipe, **options):
    pipe(num_inference_steps=3, output_type="np", **options)


@pytest.mark.max_graphs(1, breaks=0, recompiles=0, executions=3)
def test_one_graph_for_all_steps(backend):
    sample(pipeline(backend))
    assert backend.frame_count == 1


def test_a_third_batch_size_compiles_nothing(backend, graph_budget):
    pipe = pipeline(backend)
    sample(pipe)
    sample(pipe, batch_size=2)
    with graph_budget(max_graphs=0):
        sample(pipe, batch_size=3)
    assert backend.frame_count == 2


@pytest.mark.max_graphs(1, executions=3)
def test_steps_as_numbers(backend):
    pipe = pipeline(backend)
    with torch.no_grad():
        for step in (6, 3, 0):
            pipe.unet(torch.ones(1, 1, 8, 8), step)
    assert backend.frame_count == 2
"""

SENTENCES = """
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a graph is red green and long".split()


@pytest.fixture
def model(tmp_path):
    (tmp_path / "vocab.txt").write_text("\\n".join(WORDS))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(WORDS), intermediate_size=16, **sizes)
    BertModel(config).save_pretrained(tmp_path)
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    modules = [Transformer(str(tmp_path)), Pooling(16)]
    return SentenceTransformer(modules=modules, device="cpu")


@pytest.mark.max_graphs(1, breaks=0, recompiles=0, executions=2)
def test_sentences_of_one_length(model, backend):
    model.compile(backend=backend)
    model.encode(["a graph is red", "a graph"])
    model.encode(["a graph is green", "a graph"])
    assert backend.frame_count == 1


def test_a_longer_sentence(model, backend, graph_budget):
    model.compile(backend=backend)
    model.encode(["a graph is red", "a graph"])
    with graph_budget(max_graphs=0):
        model.encode(["a graph is green and long", "a graph"])
"""

TORCHTITAN = """
from torch.distributed import init_device_mesh
from torchtitan.config import CompileConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.compile import apply_compile
from torchtitan.distributed.fsdp import apply_fsdp_to_decoder
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.model import Llama3TransformerBlock


@pytest.fixture
def gloo():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def llama(backend):
    config = model_registry("debugmodel").model
    for layer in config.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    model = config.build()
    dims = ParallelDims(dp_replicate=1, dp_shard=1, cp=1, tp=1, pp=1, ep=1, world_size=1)
    compile_config = CompileConfig(enable=True, backend=backend)
    apply_compile(model, compile_config=compile_config, parallel_dims=dims)
    plain = {"param_dtype": torch.float32, "reduce_dtype": torch.float32, "pp_enabled": False}
    apply_fsdp_to_decoder(model, init_device_mesh("cpu", (1,)), **plain)
    model.init_states()
    return model


def step(model):
    model(torch.zeros(1, 8, dtype=torch.long)).sum().backward()


@pytest.mark.max_graphs(1, breaks=0, recompiles=0, executions=6)
def test_six_blocks_share_a_graph(backend, gloo):
    step(llama(backend))
    assert backend.frame_count == 1


@pytest.mark.max_graphs(1)
def test_a_number_for_each_block(backend, gloo, monkeypatch):
    forward = Llama3TransformerBlock.forward

    def scaled(self, *args):
        return forward(self, *args) * self.scale

    monkeypatch.setattr(Llama3TransformerBlock, "forward", scaled)
    model = llama(backend)
    for number, block in enumerate(model.layers.values()):
        block.scale = 1.0 + number
    step(model)
    assert backend.frame_count == 2
"""

# On torch 2.13 torchax 0.0.13 cannot be imported: it has an environment of its own.
TORCHAX = """
import jax
import torchax


@pytest.fixture
def events():
    events = []

    def note(name, seconds, **values):
        if name == "/jax/core/compile/backend_compile_duration":
            events.append(name)

    with torchax.default_env():
        jax.monitoring.register_event_duration_secs_listener(note)
        yield events
        jax.monitoring.clear_event_listeners()


def test_one_program(events, graph_budget):
    model, x = torchax.compile(Net().to("jax")), torch.ones(3, 4).to("jax")
    events.clear()
    with graph_budget(max_graphs=1):
        model(x)
        model(x)
    assert len(events) == 1


def test_a_program_for_each_operation(events, graph_budget):
    model, x = Net().to("jax"), torch.ones(3, 4).to("jax")
    events.clear()
    with graph_budget() as seen:
        model(x)
    assert seen.graphs == len(events) > 1
    assert {graph.cause for graph in seen.record.graph_list} == {"eager"}


def test_another_size(graph_budget):
    with torchax.default_env():
        model = torchax.compile(Net().to("jax"))
        x, y = torch.ones(3, 4).to("jax"), torch.ones(5, 4).to("jax")
        model(x)
        with graph_budget(max_graphs=0):
            model(y)
"""

MARKER = "graph budget: {} dynamo graphs, the marker allows 1 *"
BLOCK = "*graph budget: 1 {} graph, the block allows 0 (+1)"
LOGGED = ("  + GB0124 *", "      test_it.py:* in Logged.forward *", "*print(hidden.mean().item())")
TWO, THREE = ((MARKER.format(graphs), *LOGGED) for graphs in (2, 3))

LIBRARIES: dict[str, tuple[str, int, list[tuple[str, ...]]]] = {
    "tensordict": (TENSORDICT + PRINT, 2, [THREE]),
    "lightning": (
        TRAINER + PRINT,
        1,
        [
            (
                MARKER.format(2),
                "  + recompile *tensor 'x' size mismatch at index 0. expected 3, actual 2 *",
                "      test_it.py:* in Net.forward",
            ),
            THREE,
        ],
    ),
    "lightning.fabric": (FABRIC + PRINT, 1, [TWO]),
    "accelerate": (ACCELERATE + PRINT, 2, [TWO]),
    "torchao": (
        TORCHAO + PRINT,
        1,
        [
            (
                BLOCK.format("dynamo"),
                "*+ recompile *'self.head.weight'*found torchao.quantization.Int8Tensor",
                "* test_it.py:* in Net.forward",
            ),
            TWO,
        ],
    ),
    "diffusers": (
        DIFFUSERS,
        2,
        [
            (
                MARKER.format(2),
                "  + recompile *timestep == 6 (timestep is 3 now)",
                "      diffusers/models/unets/unet_2d.py:* in UNet2DModel.forward",
            )
        ],
    ),
    "sentence_transformers": (
        SENTENCES,
        1,
        [
            (
                BLOCK.format("dynamo"),
                "*+ recompile *'input_ids'*expected 6, actual 8*",
                "* sentence_transformers/base/model.py:* in BaseModel.forward",
            )
        ],
    ),
    "torchax": (
        TORCHAX,
        2,
        [
            (
                BLOCK.format("jax"),
                "*+ retrace *float32[[]3,4] before, float32[[]5,4] now",
                "* test_it.py:* in test_another_size",
            )
        ],
    ),
    "torchtitan": (
        TORCHTITAN,
        1,
        [
            (
                MARKER.format(2),
                "  + recompile *self.scale == 1.0 (another *: self.scale is 2.0 now)",
                "      test_it.py:* in test_a_number_for_each_block.*.scaled",
            )
        ],
    ),
}
"""The tests of each library, how many of them pass, and the lines of each that is red."""


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_counts_are_those_of_its_backend_and_a_regression_is_red_at_its_line(
    suite: Suite, library: str
) -> None:
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"needs {library}: tox -e engines")
    source, passed, red = LIBRARIES[library]
    suite.write(NETWORK + source)
    run = suite.run()
    run.assert_outcomes(passed=passed, failed=len(red))
    for lines in red:
        run.stdout.fnmatch_lines(lines)
    causes = [line for line in run.outlines if line.lstrip("E ").startswith("+ ")]
    assert len(causes) == len(red), causes

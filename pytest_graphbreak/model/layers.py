"""The layers, from the user's code down to the device: what each of them says of itself.

A layer is an entry of ``DESCRIPTIONS`` and a folder or module of ``layers`` with its observer. The
list is short by intent and does not accept entries from other packages: layers are part of the
baseline files and of the schema of the JSON report, which are read where nothing but this package
is installed. An observer is only named here, and imported where something is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.model.layer import GraphCause, Layer, Versions

_XLA_CAUSES: Final = (
    GraphCause("fx", "plain", plural="fx"),
    GraphCause("split"),
    GraphCause("recompile", "repeat", falls_with="sources"),
    GraphCause("backward", "expected", plural="backward"),
    GraphCause("sync", falls_with="call"),
    GraphCause("access", plural="accesses"),
    GraphCause("pending", falls_with="sources", plural="pending"),
    GraphCause("reshard"),
    GraphCause("other", plural="other"),
)

_XLA_LOOK_FOR: Final = (
    "tensors that are no longer on the device, work that no sync and no value asks for"
)

_XLA_SETS: Final = (
    ("torch._dynamo.config.automatic_dynamic_shapes", False),
    ("torch._dynamo.config.specialize_float", True),
    ("torch._functorch.config.view_replay_for_aliased_outputs", True),
)
"""The settings of torch that torch_xla changes. Source: __init__.py of torch_xla 2.9."""

_JAX_CAUSES: Final = (
    GraphCause("jit", "plain", plural="jit"),
    GraphCause("aot", "expected", plural="aot"),
    GraphCause("backward", "expected", plural="backward"),
    GraphCause("retrace", "repeat", explained_by="recompile"),
    GraphCause("eager", plural="eager"),
    GraphCause("transfer"),
    GraphCause("other", plural="other"),
)

_JAX_LOOK_FOR: Final = (
    "a jax.jit that is gone or has less in it, JAX_DISABLE_JIT, or "
    "programs in a persistent cache (JAX_ENABLE_COMPILATION_CACHE=false turns it off)"
)

_ALL: Final = (
    # The dynamo layer: FX graphs that TorchDynamo hands to its backend.
    Layer(
        name="dynamo",
        causes=(
            GraphCause("entry", "plain", plural="entries"),
            GraphCause(
                "break", explained_by="break", words="after a break", plural="after a break"
            ),
            GraphCause("callee", explained_by="break", words="called function"),
            GraphCause("bucket"),
            GraphCause("recompile", "repeat", explained_by="recompile"),
        ),
        observer="pytest_graphbreak.layers.dynamo.observer:DynamoObserver",
        needs=("torch",),
        versions=("torch",),
        breaks=True,
        probe="pytest_graphbreak.layers.dynamo.observer:DynamoProbe",
        look_for="a moved torch.compile, disable, force_eager, a caught error",
        remedy="docs/reference/versions.md has the versions that are known to work",
    ),
    # The xla layer: computations that PJRT compiled through torch_xla.
    Layer(
        name="xla",
        causes=_XLA_CAUSES,
        observer="pytest_graphbreak.layers.xla.observer:XlaObserver",
        needs=("torch", "torch_xla"),
        versions=("torch_xla",),
        above="dynamo",
        backend="openxla",
        sets=_XLA_SETS,
        probe="pytest_graphbreak.layers.xla.observer:XlaProbe",
        look_for=_XLA_LOOK_FOR,
        remedy="install torch and torch_xla of one version, or uninstall torch_xla",
    ),
    # The tt layer: programs that the TT compiler began to lower. Its causes are those of xla.
    Layer(
        name="tt",
        causes=_XLA_CAUSES,
        observer="pytest_graphbreak.layers.tt.observer:TTObserver",
        needs=("torch", "torch_xla", "pjrt_plugin_tt"),
        above="xla",
        backend="tt",
        probe="pytest_graphbreak.layers.tt.observer:TTProbe",
        look_for=_XLA_LOOK_FOR,
        remedy="docs/how-to/tt-hardware.md has the steps; graphbreak analyze reads its log",
    ),
    # The jax layer: XLA executables that JAX compiled for the device of the profile.
    Layer(
        name="jax",
        causes=_JAX_CAUSES,
        observer="pytest_graphbreak.layers.jax.observer:JaxObserver",
        needs=("jax",),
        versions=("jax",),
        breaks=True,
        probe="pytest_graphbreak.layers.jax.observer:JaxProbe",
        look_for=_JAX_LOOK_FOR,
        remedy="install jax 0.7.1 or newer, with the jaxlib of the same version",
    ),
    # The inductor layer: graphs that inductor compiled, or loaded from a cache; judged where named.
    Layer(
        name="inductor",
        causes=(
            GraphCause("forward", "plain", plural="forward"),
            GraphCause("backward", "expected", plural="backward"),
            GraphCause("inference", "expected", plural="inference"),
            GraphCause("recompile", "repeat", falls_with="sources"),
        ),
        observer="pytest_graphbreak.layers.inductor.observer:InductorObserver",
        needs=("torch",),
        above="dynamo",
        breaks=True,
        judged=False,
        fewer_is_lost=False,
        look_for='another backend than "inductor", or fullgraph code that runs without the '
        "compiler",
        remedy="install a C++ compiler (g++): inductor compiles with it",
    ),
    # The cudagraph layer: CUDA graphs that were captured, and their replays; judged where named.
    #
    # A trace of a TT device is the same thing: commands that are captured once and replayed. It
    # would be this layer as well, once its log has a line for each end of a capture and for each
    # replay, with the trace's id and the line of Python, or the name of the program, that asked
    # for it.
    Layer(
        name="cudagraph",
        causes=(
            GraphCause("captured", "plain", plural="captured"),
            GraphCause("callable", "expected"),
            GraphCause("tree", "expected", words="by inductor", plural="by inductor"),
            GraphCause("recompile", "repeat", explained_by="recompile"),
        ),
        observer="pytest_graphbreak.layers.cudagraph:CudaGraphObserver",
        needs=("torch",),
        judged=False,
        look_for="why inductor skips it (the eager entries of the inductor layer), a capture that "
        "is turned off, a size without a captured graph",
        remedy="docs/how-to/serving.md says what is counted",
    ),
    # The triton layer: kernels that Triton compiled just in time, outside of inductor.
    #
    # Judged where it is named. Inductor's own kernels are compiled by workers: they belong to its
    # graphs.
    Layer(
        name="triton",
        causes=(
            GraphCause("kernel", "plain"),
            GraphCause("recompile", "repeat", explained_by="recompile"),
        ),
        observer="pytest_graphbreak.layers.triton:TritonObserver",
        needs=("torch", "triton"),
        judged=False,
        look_for="a kernel that is launched no more",
        remedy="docs/how-to/serving.md says what is counted",
    ),
)

DESCRIPTIONS: Final[Mapping[str, Layer]] = MappingProxyType({layer.name: layer for layer in _ALL})
"""The description of each layer by its name, from the user's code down to the device."""

LAYERS: Final = tuple(DESCRIPTIONS)
"""The names of the layers at which graphs are counted."""

CAUSES: Final = {name: tuple(cause.name for cause in DESCRIPTIONS[name].causes) for name in LAYERS}
"""The causes of graphs by layer. Every graph has exactly one cause."""

BY_NAME: Final = {cause.name: cause for layer in DESCRIPTIONS.values() for cause in layer.causes}
"""The causes of all layers by name; a name has the same meaning on all layers."""

EXPECTED: Final = tuple(cause.name for cause in BY_NAME.values() if cause.is_expected)
"""The causes of graphs that also exist in a model that compiles well."""

JUDGED: Final = frozenset(name for name in LAYERS if DESCRIPTIONS[name].judged)
"""The layers to which a budget applies without naming them."""

BREAKING: Final = tuple(name for name in LAYERS if DESCRIPTIONS[name].breaks)
"""The layers that code can leave, by graph breaks or by functions that run eagerly."""

_REASONED: Final = frozenset(BREAKING) - JUDGED
"""The layers that a line can leave for several reasons, each of which is a place of its own."""


def reason_key(layer: str | None, reason: str) -> tuple[str, ...]:
    """Return what the reason adds to the identity of a place where code left a layer."""
    return (reason,) if layer in _REASONED else ()


BACKENDS: Final = {name: layer.backend for name, layer in DESCRIPTIONS.items() if layer.backend}
"""The layers of devices, with the backend of ``torch.compile`` that uses each."""

VERSIONS: Final = tuple(
    dict.fromkeys(name for layer in DESCRIPTIONS.values() for name in layer.versions)
)
"""The packages whose versions every report states."""


def compilers(layers: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that make the graphs of these layers, each once."""
    return tuple(dict.fromkeys(DESCRIPTIONS[layer].compiler for layer in layers))


COMPILERS: Final = compilers(LAYERS)
"""The packages that make graphs; a baseline states the version of each that was used."""

WAITED: Final = tuple(
    dict.fromkeys(layer.needs[0] for layer in DESCRIPTIONS.values() if layer.needs)
)
"""The modules of which a process must import at least one before it can compile anything.

A child process waits for the first of them before it watches itself.
"""


def made_by(layer: str, versions: Versions) -> str | None:
    """Return the version of the compiler that makes the graphs of a layer, or None if unknown."""
    return versions.get(DESCRIPTIONS[layer].compiler)

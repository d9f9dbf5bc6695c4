"""The layers, from the user's code down to the device: what each of them says of itself.

A layer is an entry of ``DESCRIPTIONS`` and a folder or module of ``layers`` with its observer. The
list is short by intent and does not accept entries from other packages: layers are part of the
baseline files and of the schema of the JSON report, which are read where nothing but this package
is installed. Code to run (an observer, a probe) is only named here and loaded by ``layers``, so
that a description imports neither torch nor an observer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct


class GraphCause(Struct, frozen=True):
    """A reason for a graph to exist, and what it means to a reader.

    ``kind`` is ``plain`` for the one graph that was asked for (an ``entry``, an ``fx``),
    ``expected`` for one that also exists in a model that compiles well (a ``backward``), ``repeat``
    for the same code compiled again, and ``defect`` for all others, including the consequences of a
    defect. ``explained_by`` is the kind of item of the record that explains it, so that the graph
    itself needs no text. ``falls_with`` says which break causes such a graph, if one does: with
    ``call``, the break below the function that holds the graph; with ``sources``, the break that
    split its sources into separate graphs. A ``sync`` in ``train`` falls with the break in what
    ``train`` calls, since it computes what the eager code there left pending; a ``pending`` graph
    with the break since which the function that it waited for is a graph of its own. ``plural`` is
    the plural of the name if it does not end in ``s``, and ``words`` is what a failed test shows
    after the number of such graphs, if the name alone is not clear.
    """

    name: str
    kind: Literal["plain", "expected", "repeat", "defect"] = "defect"
    explained_by: Literal["", "break", "recompile"] = ""
    falls_with: Literal["", "call", "sources"] = ""
    plural: str = ""
    words: str = ""

    @property
    def is_plain(self) -> bool:
        return self.kind == "plain"

    @property
    def is_expected(self) -> bool:
        """Whether a graph of this cause also exists in a model that compiles well."""
        return self.kind in ("plain", "expected")

    def count_words(self, count: int) -> str:
        """Return a count in words: ``1 entry``, ``3 fx``, ``2 after a break``."""
        words = self.words or self.name
        return f"{count:,} {words if count == 1 else self.plural or f'{words}s'}"


class Layer(Struct, frozen=True, kw_only=True):
    """A place where graphs are counted.

    - ``name`` is used in reports, baselines and markers; it is a Python identifier.
    - ``causes``: every graph has exactly one of them; they are reported in this order.
    - ``observer``: the class that counts, and ``probe`` the class that tries it out for ``doctor``,
      both as ``package.module:Name``.
    - ``needs``: the modules that the layer requires; a process imports the first of them before
      it compiles anything. ``versions``: the packages whose versions every report states.
    - ``above``: the layer whose graphs it lowers, or None if it compiles the user's own code.
    - ``breaks``: whether code can leave it: graph breaks, and functions that run eagerly.
    - ``judged``: whether it is compared with a budget that does not name it. Other layers are
      counted and reported, and judged only if a baseline or a marker names them.
    - ``fewer_is_lost``: whether fewer operations of a graph are lost code; they are not where
      better compilation makes fewer of them (kernels that are fused).
    - ``backend``: for a layer of a device, the backend of ``torch.compile`` that uses it; its
      profiles are then named after the layer and the model of the device (``xla-cpu``).
    - ``sets``: settings of torch by name, with the values that its library sets when imported.
    - ``look_for``: what to look for if fewer graphs reach the layer than before, or empty.
    - ``remedy``: what ``doctor`` advises if the layer cannot be observed.
    """

    name: str
    causes: tuple[GraphCause, ...]
    observer: str
    needs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    above: str | None = None
    breaks: bool = False
    judged: bool = True
    fewer_is_lost: bool = True
    backend: str | None = None
    sets: tuple[tuple[str, object], ...] = ()
    probe: str | None = None
    look_for: str = "what called it before"
    remedy: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"the name of a layer is a keyword of max_graphs(...): {self.name!r}")

    @property
    def compiler(self) -> str:
        """The package that makes its graphs; they may change with its minor version.

        For xla and tt that is torch: torch and torch_xla are to be of one version (``remedy``).
        """
        return self.needs[0] if self.needs else self.name

    def cause(self, name: str) -> GraphCause:
        """Return the cause of this name, or a bare one for an unknown name (of a later version)."""
        for cause in self.causes:
            if cause.name == name:
                return cause
        return GraphCause(name)


# What each cause means is in docs/explanation/counting.md.
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
"""The causes of all layers by name; a name has the same meaning on all layers.

``kind`` and the words are the same on all of them; ``explained_by`` and ``falls_with`` are not
(``recompile``): these are read from the cause of the layer, ``DESCRIPTIONS[layer].cause(name)``.
"""

EXPECTED: Final = tuple(cause.name for cause in BY_NAME.values() if cause.is_expected)
"""The causes of graphs that also exist in a model that compiles well."""

JUDGED: Final = frozenset(name for name in LAYERS if DESCRIPTIONS[name].judged)
"""The layers to which a budget applies without naming them."""

BREAKING: Final = tuple(name for name in LAYERS if DESCRIPTIONS[name].breaks)
"""The layers that code can leave, by graph breaks or by functions that run eagerly."""

_REASONED: Final = frozenset(BREAKING) - JUDGED
"""The layers that a line can leave for several reasons, each of which is a place of its own.

That is inductor, where operators of one line fall back for reasons of their own.
"""


def reason_key(layer: str | None, reason: str) -> tuple[str, ...]:
    """Return what the reason adds to the identity of a place where code left a layer."""
    return (reason,) if layer in _REASONED else ()


BACKENDS: Final = {name: layer.backend for name, layer in DESCRIPTIONS.items() if layer.backend}
"""The layers of devices, with the backend of ``torch.compile`` that uses each."""

WAITED: Final = tuple(
    dict.fromkeys(layer.needs[0] for layer in DESCRIPTIONS.values() if layer.needs)
)
"""The modules of which a process must import at least one before it can compile anything.

A child process waits for the first of them before it watches itself.
"""

"""The xla layer: computations that PJRT compiled through torch_xla."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

CAUSES = (
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

LOOK_FOR = "tensors that are no longer on the device, work that no sync and no value asks for"

SETS = (
    ("torch._dynamo.config.automatic_dynamic_shapes", False),
    ("torch._dynamo.config.specialize_float", True),
    ("torch._functorch.config.view_replay_for_aliased_outputs", True),
)
"""The settings of torch that torch_xla changes. Source: __init__.py of torch_xla 2.9."""

LAYER = Layer(
    name="xla",
    causes=CAUSES,
    observer="pytest_graphbreak.layers.xla.observer:XlaObserver",
    needs=("torch", "torch_xla"),
    versions=("torch_xla",),
    above="dynamo",
    backend="openxla",
    sets=SETS,
    probe="pytest_graphbreak.layers.xla.observer:XlaProbe",
    look_for=LOOK_FOR,
    remedy="install torch and torch_xla of one version, or uninstall torch_xla",
)

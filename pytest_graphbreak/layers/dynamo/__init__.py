"""The dynamo layer: FX graphs that TorchDynamo hands to its backend."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="dynamo",
    causes=(
        GraphCause("entry", "plain", plural="entries"),
        GraphCause("break", explained_by="break", words="after a break", plural="after a break"),
        GraphCause("callee", explained_by="break", words="called function"),
        GraphCause("bucket"),
        GraphCause("recompile", "repeat", explained_by="recompile"),
    ),
    observer="pytest_graphbreak.layers.dynamo.observer:DynamoObserver",
    needs=("torch",),
    versions=("torch",),
    breaks=True,
    probe="pytest_graphbreak.layers.dynamo.observer:DynamoProbe",
    look_for="a torch.compile that is gone or has less in it, torch.compiler.disable, "
    'set_stance("force_eager"), an exception that is caught',
    remedy="docs/reference/versions.md has the versions that are known to work",
)

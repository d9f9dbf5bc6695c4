"""The dynamo layer: FX graphs that TorchDynamo hands to its backend."""

from __future__ import annotations

from pytest_graphbreak.model.layer import Cause, Layer, Style

LAYER = Layer(
    name="dynamo",
    causes=(
        Cause("entry", "plain", plural="entries"),
        Cause("break", told_by="break"),
        Cause("callee", told_by="break"),
        Cause("bucket"),
        Cause("recompile", "again", told_by="recompile"),
    ),
    observer="pytest_graphbreak.layers.dynamo.observer:DynamoObserver",
    needs=("torch",),
    versions=("torch",),
    breaks=True,
    probe="pytest_graphbreak.layers.dynamo.probe:DynamoProbe",
    remedy="docs/reference/versions.md has the versions that are known to work",
    style=Style("var(--graph-edge)", "stroke-dasharray: 5 3;"),
)

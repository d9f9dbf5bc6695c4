"""Counts what the toy compiler compiles for the host."""

from __future__ import annotations

from pytest_graphbreak.layers.toy.observer import ToyObserver


class HostObserver(ToyObserver):
    layer = "toy_host"
    device = "host"

"""Graphs of lazy tensors that one line compiles again, and older baselines that know them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

import torch_xla

from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.record import Record
from tests.layers.xla.tools import close, ones, open_window


def watched(run: Callable[[], object], key: str) -> Record:
    torch_xla.sync()
    window = open_window(key)
    run()
    return close(window)


def test_a_helper_that_reads_other_values_is_no_recompile() -> None:
    def read(value: Any) -> float:
        return value.item()

    def run() -> None:
        x = ones(3)
        y = ones(3)
        read((x + 1).sum())
        read((x * y).sum())

    seen = watched(run, "helper")
    assert [graph.cause for graph in seen.graph_list] == ["access", "access"]
    assert seen.recompiles == {}


def test_a_line_that_stands_twice_in_a_function_has_one_reason_with_both() -> None:
    def run() -> None:
        value = ones(2, 3) * 2
        torch_xla.sync()
        value = value + 1
        torch_xla.sync()

    record = watched(run, "twice")
    (finding,) = findings_of_record(record)
    file, start = finding.where.file, run.__code__.co_firstlineno
    assert finding.count == len(record.graph_list) == 2
    assert finding.reason == f"explicit sync, at {file}:{start + 2} and {file}:{start + 4}"

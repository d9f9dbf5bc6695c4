"""Which settings a failure shows, and how."""

from __future__ import annotations

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.settings import left_behind, measured_with

XLA = {
    "torch._dynamo.config.automatic_dynamic_shapes": False,
    "torch._dynamo.config.specialize_float": True,
    "torch._functorch.config.view_replay_for_aliased_outputs": True,
}


def shown(settings: dict[str, object], *layers: str) -> list[str]:
    return list(measured_with(Record(layers=layers or ("dynamo",), settings=settings)))


def test_one_line_for_each() -> None:
    settings = {"torch._dynamo.config.capture_scalar_outputs": True, "default_dtype": "torch.half"}
    assert shown(settings) == [
        "  settings  measured with capture_scalar_outputs = True",
        "            and default_dtype = torch.half",
    ]
    assert shown({}) == []


def test_inductor_decides_nothing_of_which_graphs_there_are() -> None:
    assert shown({"torch._inductor.config.triton.cudagraphs": True}) == []


def test_what_torch_xla_sets_is_told_where_it_is_another_value_or_torch_xla_is_not_there() -> None:
    assert shown(XLA, "dynamo", "xla") == []
    assert len(shown(XLA)) == 3
    other = XLA | {"torch._dynamo.config.automatic_dynamic_shapes": True}
    assert shown(other, "dynamo", "xla") == [
        "  settings  measured with automatic_dynamic_shapes = True"
    ]


def test_text_of_strangers_is_made_harmless() -> None:
    assert shown({"stance\x1b[31m": "a\nb"}) == [
        "  settings  measured with stance\\x1b[31m = a\\nb"
    ]


def test_what_was_left_is_one_line() -> None:
    left = {"torch._dynamo.config.disable": True, "grad_mode": False}
    assert left_behind(TestReport("t", "passed", leaks=left)) == "disable = True, grad_mode = False"
    assert left_behind(TestReport("t", "passed")) == ""

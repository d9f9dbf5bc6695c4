"""How two graphs of lazy tensors differ, by what torch_xla prints of them."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.xla.repeats import IrNode, difference, read

# As torch_xla 2.9 prints it, with and without the line that made each.
GROWING = """
IR {{
  %0 = f32[1,8]{{1,0}} xla::device_data(), location=step@run.py:21, xla_shape=f32[1,8]
  %1 = f32[{size},8]{{1,0}} xla::device_data(), location=grow@kv.py:9, scope=x
  %2 = f32[{more},8]{{1,0}} aten::cat(%1, %0), location=grow@kv.py:9, ROOT=0
  %3 = f32[] aten::sum(%2), xla_shape=f32[]
}}
"""


def growing(size: int) -> str:
    return GROWING.format(size=size, more=size + 1)


def test_nodes_have_shapes_and_lines() -> None:
    nodes = read(growing(2))
    assert [node.shape for node in nodes] == ["f32[1,8]", "f32[2,8]", "f32[3,8]", "f32[]"]
    assert nodes[2] == IrNode("aten::cat", "f32[3,8]", ("kv.py", 9, "grow"))
    assert nodes[3].made is None


def test_the_operation_that_makes_another_shape_is_reported_and_not_its_input() -> None:
    found = difference(growing(2), growing(3))
    assert found is not None
    assert found.words == "aten::cat makes f32[4,8], made f32[3,8]"
    assert found.node is not None
    assert found.node.made == ("kv.py", 9, "grow")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (growing(2), growing(2), "a constant or an attribute of an operation is another"),
        ("%0 = f32[2] xla::device_data()", "%0 = f32[3] xla::device_data()",
         "an input is f32[3], was f32[2]"),
        ("%0 = f32[] aten::sin(%1)", "%0 = f32[] aten::cos(%1)",
         "1 operations, 1 before, aten::cos f32[] differs"),
        ("%0 = f32[] aten::sin(%1)\n%1 = f32[] aten::cos(%0)", "%0 = f32[] aten::sin(%1)",
         "1 operations, 2 before, aten::cos is gone"),
    ],
)  # fmt: skip
def test_what_differs(before: str, after: str, words: str) -> None:
    found = difference(before, after)
    assert found is not None
    assert found.words == words


def test_of_what_was_not_printed_nothing_is_reported() -> None:
    assert difference("", growing(2)) is None
    assert difference(growing(2), "") is None

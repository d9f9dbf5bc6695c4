"""How two graphs of lazy tensors differ, by the HLO that torch_xla prints of them."""

from __future__ import annotations

import random

import pytest

from pytest_graphbreak.layers.xla.hlo import Instruction, difference, read

# As torch_xla 2.9 prints it, with the lines that made the instructions and without.
GROWING = """HloModule IrToHlo.9, entry_computation_layout={{(f32[{size},8]{{1,0}})->(f32[])}}

%AddComputation.3 (x.4: f32[], y.5: f32[]) -> f32[] {{
  %x.4 = f32[] parameter(0)
  ROOT %add.6 = f32[] add(f32[] %x.4, f32[] %x.4)
}}

ENTRY %IrToHlo.9 (p0.1: f32[{size},8], p1.2: f32[1,8]) -> (f32[]) {{
  %p1.2 = f32[1,8]{{1,0}} parameter(1), metadata={{op_type="xla__device_data" \
source_file="/run.py" source_line=21}}
  %p0.1 = f32[{size},8]{{1,0}} parameter(0)
  %constant.7 = f32[] constant({number}), metadata={{op_type="aten__sum"}}
  %concatenate.3 = f32[{more},8]{{1,0}} concatenate(f32[{size},8]{{1,0}} %p0.1, \
f32[1,8]{{1,0}} %p1.2), dimensions={{0}}, metadata={{op_type="aten__cat" \
op_name="aten__cat" source_file="/kv.py" source_line=9}}
  %slice.5 = f32[1,8]{{1,0}} slice(f32[{more},8]{{1,0}} %concatenate.3), slice={{{cut}, [0:8]}}, \
metadata={{op_type="xla__select" source_file="/kv.py" source_line=10}}
  %reduce.4 = f32[] reduce(f32[{more},8]{{1,0}} %concatenate.3, f32[] %constant.7), \
dimensions={{0,1}}, to_apply=%AddComputation.3, metadata={{op_type="aten__sum"}}
  ROOT %tuple.8 = (f32[]) tuple(f32[] %reduce.4)
}}
"""


def growing(size: int, number: float = 0, cut: str = "[0:1]") -> str:
    return GROWING.format(size=size, more=size + 1, number=number, cut=cut)


def rank(made: tuple[str, int] | None) -> int:
    return int(made is None)


def words(before: str, after: str) -> str:
    found = difference(read(before), read(after), rank)
    assert found is not None
    return found.words


def line(text: str, made: str = "") -> str:
    return f"  %a.1 = {text}, metadata={{{made}}}"


def test_instructions_have_operations_shapes_and_lines() -> None:
    cat = next(one for one in read(growing(2)) if one.code == "concatenate")
    assert cat == Instruction(
        "aten::cat", "concatenate", "f32[3,8]", "dimensions={0}", 2, ("/kv.py", 9)
    )
    kept = [(one.op, one.detail) for one in read(growing(2, 1)) if one.code == "constant"]
    assert kept == [("aten::sum", "1")]
    assert "tuple" not in {one.code for one in read(growing(2))}


def test_the_operation_that_makes_another_shape_is_reported_and_not_its_input() -> None:
    found = difference(read(growing(2)), read(growing(3)), rank)
    assert found is not None
    assert found.words == "aten::cat makes f32[4,8], made f32[3,8]"
    assert found.at is not None
    assert found.at.made == ("/kv.py", 9)


SINE, COSINE = line("f32[] sine(%b)"), line("f32[] cosine(%b)")
INPUT = line("f32[2] parameter(0)")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (growing(2), growing(2), "other results of the same operations are kept"),
        (growing(2), growing(2, 1), "a constant of aten::sum is 1, was 0"),
        (growing(2), growing(2, 0, "[1:2]"),
         "slice of xla::select is {[1:2], [0:8]}, was {[0:1], [0:8]}"),
        (INPUT, line("f32[3] parameter(0)"), "an input is f32[3], was f32[2]"),
        (INPUT, f"{INPUT}\n{line('f32[] parameter(1)')}", "2 inputs, 1 before"),
        (SINE, COSINE, "1 operations, 1 before, cosine f32[] is new"),
        (f"{SINE}\n{COSINE}", SINE, "1 operations, 2 before, cosine f32[] is gone"),
    ],
)  # fmt: skip
def test_what_differs(before: str, after: str, expected: str) -> None:
    assert words(before, after) == expected


def test_the_order_in_which_tensors_are_given_changes_nothing() -> None:
    # Each line is a graph of its own: all orders are right.
    lines = [line(f"f32[{size}] {code}(%b)") for size in (1, 2, 3) for code in ("sine", "cosine")]
    after = [*lines, line("f32[9] sine(%b)"), line("f32[4] sine(%b)")]
    expected = words("\n".join(lines), "\n".join(after))
    draw = random.Random(7)
    for _ in range(20):
        draw.shuffle(lines)
        draw.shuffle(after)
        assert words("\n".join(lines), "\n".join(after)) == expected


def test_a_line_that_is_the_same_in_both_is_not_what_came() -> None:
    def constant(number: int) -> str:
        return line("f32[] constant(1)", f'source_file="/a.py" source_line={number}')

    found = difference(read(constant(1)), read(f"{constant(2)}\n{constant(1)}"), rank)
    assert found is not None
    assert found.at is not None
    assert found.at.made == ("/a.py", 2)


def test_the_users_line_comes_before_a_line_of_torch() -> None:
    before = line("f32[1] sine(%b)")
    added = [
        line(f"f32[1] {code}(%b)", f'source_file="/{file}.py" source_line=1')
        for code, file in (("abs", "torch"), ("negate", "user"))
    ]

    def by_name(made: tuple[str, int] | None) -> int:
        return 2 if made is None else int(made[0] == "/torch.py")

    found = difference(read(before), read("\n".join((before, *added))), by_name)
    assert found is not None
    assert found.words == "3 operations, 1 before, negate f32[1] is new"


def test_of_what_was_not_printed_nothing_is_reported() -> None:
    assert difference((), read(growing(2)), rank) is None
    assert difference(read(growing(2)), (), rank) is None

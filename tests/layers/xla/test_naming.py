"""What the parts of an FX graph are called in the user's code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.layers.xla.fx import Signature, change
from pytest_graphbreak.layers.xla.naming import common_module, input_names, op_name, source_name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x']", "`x`"),
        ("G['linear']", "`linear`"),
        ("L['self'].scale", "`self.scale`"),
        ("L['self']._modules['a']._modules['0']._parameters['weight']", "`self.a.0.weight`"),
        ("L['self']._buffers['steps']", "`self.steps`"),
        ("L['kwargs']['mask']", "`kwargs['mask']`"),
        ("L['x'].size()[1]", "dimension 1 of `x`"),
        ("L['___stack0']", "the value of this line"),
    ],
)
def test_inputs_are_named_as_in_the_users_code(source: str, name: str) -> None:
    assert source_name(source) == name


def node(**meta: Any) -> Any:
    return SimpleNamespace(meta=meta, target="aten.histc.default")


def inside(*paths: str) -> Any:
    return node(nn_module_stack={str(n): (path, object) for n, path in enumerate(paths)})


def test_the_module_around_a_graph() -> None:
    first = inside("L['self'].blocks", "L['self']._modules['blocks']._modules['0'].linear")
    second = inside("L['self'].blocks", "L['self']._modules['blocks']._modules['0']")
    other = inside("L['self'].blocks", "L['self']._modules['blocks']._modules['10']")
    assert common_module([first]) == "blocks.0.linear"
    assert common_module([first, second]) == "blocks.0"
    assert common_module([first, second, other]) == "blocks"
    assert common_module([first, node()]) is None
    assert common_module([]) is None


def test_ops_are_named_as_pytorch_does() -> None:
    assert op_name(node()) == "aten::histc"
    assert op_name(SimpleNamespace(target=len)) == "len"


def signature(*shape: int, dtype: str = "float32", number: float = 1.5) -> Signature:
    return Signature((("`x`", dtype, shape),), (("aten::mul", number),))


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (signature(3), signature(4), "`x` went from shape [3] to [4]"),
        (signature(3), signature(3, dtype="bfloat16"), "`x` went from float32 to bfloat16"),
        (
            signature(3),
            signature(3, number=1.0),
            "the number in aten::mul went from 1.5 to 1.0, which is a constant here",
        ),
        (Signature((), ()), signature(3), "it takes 1 tensors, and took 0"),
        (signature(3), signature(3), "compiled again"),
        (None, signature(3), "compiled again"),
    ],
)
def test_why_a_graph_was_compiled_again(before: Signature | None, now: Signature, why: str) -> None:
    assert change(before, now) == why


@pytest.mark.parametrize(
    ("target", "path", "name"),
    [
        ("self.a.0.weight", "L['self'].a[0]", "`self.a.0.weight`"),
        ("L__self___downs_0_conv_1.weight", "L['self'].downs[0].conv[1]", "downs.0.conv.1.weight"),
        (
            "L__self___downs_0_conv_1.weight",
            "getattr(getattr(L['self'].downs, '0').conv, '1')",
            "`self.downs.0.conv.1.weight`",
        ),
        ("L__self___downs_0_conv_1.bias", "L['self'].up", "`self.downs_0_conv_1.bias`"),
    ],
)
def test_a_parameter_of_a_module_that_dynamo_did_not_inline(
    target: str, path: str, name: str
) -> None:
    key = "L__self___downs_0_conv_1" if "downs" in path else "L__self___up"
    label = SimpleNamespace(target=target)
    made = SimpleNamespace(op="placeholder", name="primals_1", meta={"desc": label})
    used = SimpleNamespace(op="call_function", meta={"nn_module_stack": {key: (path, None)}})
    (found,) = input_names([made, used], None)
    assert name in found

"""Fallbacks and parts, read from texts of a graph. They are those of torch 2.9 and 2.13."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.inductor.texts import Fallback, Part, fallbacks, read_part
from pytest_graphbreak.model.stacks import Line

pytestmark = pytest.mark.pure

CODE = """
aten = torch.ops.aten


    def call(self, args):
        primals_1, primals_2 = args
        buf0 = empty_strided_cpu((8, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [y], Original ATen: [aten.mm]
        extern_kernels.mm(primals_1, primals_2, out=buf0)
        # Topologically Sorted Source Nodes: [h], Original ATen: [aten.histc]
        buf1 = torch.ops.aten.histc.default(primals_1, 4)
        assert_size_stride(buf1, (4, ), (1, ), 'torch.ops.aten.histc.default')
        buf4 = torch.ops.aten.sort.stable(primals_1, stable=False, dim=1, descending=False)
        buf5 = torch.ops.aten.sort.stable(primals_2, stable=False, dim=1, descending=False)
        aten.index_put_(buf0, [buf4], buf5, True)
        torch.ops.mine.send.default(buf5)
        aten.randint.low_out(-9223372036854775808, 9223372036854775807, [1], out=buf6)
        buf7 = torch.ops.mkldnn._linear_pointwise.default(buf0, primals_2, None, 'none', [], '')
        torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '0')
        buf8 = torch.ops.aten._scaled_dot_product_cudnn_attention.default(buf0, buf0, buf0, None)
        buf10 = torch.ops.aten.convolution_backward.default(buf0, buf0, buf0, [4])
        buf9 = torch.ops.aten._flash_attention_forward.default(buf0, buf0, buf0, None, None)
        aten.scatter_reduce_.two(buf0,0,buf4,primals_1, reduce='sum', include_self=True)
        torch.ops.aten._linalg_check_errors.default(buf3, 'linalg.inv', is_matrix=True)
"""
OPERATIONS = """
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[8, 16][16, 1]cpu", primals_2: "f32[16, 16][16, 1]cpu"):
        # File: /src/a.py:14 in f, code: y = x @ w
        mm: "f32[8, 16][16, 1]cpu" = torch.ops.aten.mm.default(primals_1, primals_2)

        # File: /src/a.py:15 in f, code: h = torch.histc(x.detach(), 4)
        histc: "f32[4][1]cpu" = torch.ops.aten.histc.default(primals_1, 4)

        # File: /src/a.py:16 in f, code: return x.sort(-1).values
        sort = torch.ops.aten.sort.default(primals_1)
        getitem: "f32[8, 16][16, 1]cpu" = sort[0];  sort = None

        # File: /src/a.py:17 in f, code: z = w.sort(-1).values
        sort_1 = torch.ops.aten.sort.default(primals_2)
        index_put = torch.ops.aten.index_put.default(mm, [getitem], sort_1, True)
        scatter = torch.ops.aten.scatter_add.default(mm, 0, sort_1, primals_1)
        with_effects = torch.ops.higher_order.with_effects(_make_token_default, \
torch.ops.aten._linalg_check_errors.default, getitem_1, 'linalg.inv', is_matrix = True)

        # No stacktrace found for following nodes
        send = torch.ops.mine.send.default(sort_1)
"""


def test_each_has_its_operator_and_its_line() -> None:
    sorts = (
        Line("/src/a.py", 16, "f", "return x.sort(-1).values"),
        Line("/src/a.py", 17, "f", "z = w.sort(-1).values"),
    )
    assert fallbacks(CODE, OPERATIONS) == (
        Fallback("aten.histc", Line("/src/a.py", 15, "f", "h = torch.histc(x.detach(), 4)")),
        *(Fallback("aten.sort", line) for line in sorts),
        Fallback("aten.index_put", sorts[1]),
        Fallback("mine.send", None),
        # Neither inductor's seeds, attention, convolutions, libraries nor collectives are any.
        Fallback("aten.scatter_reduce", sorts[1]),
        Fallback("aten._linalg_check_errors", sorts[1]),
    )


def test_without_a_text_there_is_less() -> None:
    assert fallbacks("", OPERATIONS) == ()
    assert {item.line for item in fallbacks(CODE, "")} == {None}


PART = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[s72, 64][64, 1]cpu", arg1_1: "f32[64][1]cpu"):
        # File: /src/a.py:14 in f, code: w = w + 1
        add: "f32[64][1]cpu" = torch.ops.aten.add.Tensor(arg1_1, 1)

"""
READS = "        mul = torch.ops.aten.mul.Tensor(arg0_1, 2)\n"


@pytest.mark.parametrize(
    ("operations", "part"),
    [
        ("", Part()),
        (PART, Part("f32[s72, 64], any s72")),
        (
            f"{PART}        # File: /src/a.py:15 in f, code: y = x * 2\n{READS}",
            Part("f32[s72, 64], any s72", Line("/src/a.py", 15, "f", "y = x * 2")),
        ),
        (
            f"{PART}        # No stacktrace found for following nodes\n{READS}",
            Part("f32[s72, 64], any s72"),
        ),
    ],
    ids=["no text", "unread", "read", "read without a line"],
)
def test_a_part_has_its_first_input_and_the_line_that_reads_it(operations: str, part: Part) -> None:
    assert read_part(operations) == part

"""How a program compiles: which settings are tried, which sizes are marked, by which line."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.remedies import compiling
from pytest_graphbreak.repair.trial import Trial, VaryingSizes

pytestmark = pytest.mark.once

LINE = "torch._dynamo.config.capture_scalar_outputs = True"
ITEM = Break("dynamo", "Unsupported Tensor.item() call", Frame("a.py", "f", 1, "x.item()"))
BREAKS = {
    ("Unsupported Tensor.item() call", "n = x.sum().item()"): "capture_scalar_outputs",
    ("Dynamic shape operator", "y = x[x > 0]"): "capture_dynamic_output_shape_ops",
    ("Failed to trace builtin operator", "print(x)"): "reorderable_logging_functions.add(print)",
    ("skipped", "warnings.warn('a')"): "reorderable_logging_functions.add(warnings.warn)",
    ("Attempted to wrap RNN, GRU, or LSTM", "y = self.rnn(x)"): "allow_rnn",
}


@pytest.mark.parametrize(("reason", "code"), sorted(BREAKS))
def test_a_break_has_its_setting(reason: str, code: str) -> None:
    item = Break("dynamo", reason, Frame("a.py", "f", 1, code))
    (patch,) = compiling.propose(item, Trial(Record()))
    assert BREAKS[reason, code] in (patch.change("import torch\n") or "")


def test_other_breaks_have_none() -> None:
    item = Break("dynamo", "Attempted to call function marked as skipped", Frame("a.py", "f", 1))
    assert not list(compiling.propose(item, Trial(Record())))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n\n# net\nnet = torch.compile(f)\n",
         "import torch\n\n# net\nLINE\nnet = torch.compile(f)\n"),
        ("import torch\n\ndef test():\n    x = 1\n    g(torch.compile(f))\n",
         "import torch\n\ndef test():\n    x = 1\n    LINE\n    g(torch.compile(f))\n"),
        ("import torch\n\n@other\n@torch.compile\ndef f(x): return x\n",
         "import torch\n\nLINE\n@other\n@torch.compile\ndef f(x): return x\n"),
        ("import torch\n\nclass A:\n    @torch.compile(mode=M)\n    def f(self): pass\n",
         "import torch\n\nLINE\nclass A:\n    @torch.compile(mode=M)\n    def f(self): pass\n"),
        ("import torch as th\n\nif 1:\n    f = th.compile(f)\n",
         "import torch as th\n\nif 1:\n    import torch\n    LINE\n    f = th.compile(f)\n"),
        ('"""Doc."""\nfrom __future__ import division\n\nimport net\n',
         '"""Doc."""\nfrom __future__ import division\nimport torch\nLINE\n\nimport net\n'),
        ("import os\n# needs CUDA\nimport torch\nx = 1\n",
         "import os\n# needs CUDA\nimport torch\nLINE\nx = 1\n"),
    ],
)  # fmt: skip
def test_it_is_one_line_where_the_program_compiles(before: str, after: str) -> None:
    (patch,) = compiling.propose(ITEM, Trial(Record()))
    assert patch.change(before) == after.replace("LINE", LINE)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("f = torch.compile(f)", "f = torch.compile(f, dynamic=True)"),
        ("f = torch.compile(f, dynamic=False)", "f = torch.compile(f, dynamic=True)"),
        ("@torch.compile(mode=M)\ndef f(): 0", "@torch.compile(mode=M, dynamic=True)\ndef f(): 0"),
    ],
)
def test_the_calls_of_a_program_are_dynamic(line: str, wanted: str) -> None:
    head = "import torch\n\n\n"
    assert compiling.as_dynamic(f"{head}{line}  # here\n") == f"{head}{wanted}  # here\n"


@pytest.mark.parametrize("line", ["re.compile('a')", "model.compile()", "x = 3"])
def test_other_calls_stay(line: str) -> None:
    assert compiling.as_dynamic(f"import re\n{line}\n") is None


HEAD = "import torch\n\n\n@torch.compile\ndef f(x, batch): return x\n\n\nfor x, y in data:\n"


@pytest.mark.parametrize(
    ("argument", "dims", "call", "marked"),
    [
        ("x", [0], "f(x, y)", "x, 0"),
        ("batch['ids']", [0, 1], "print(f(x, batch=y))", "y['ids'], [0, 1]"),
        ("x", [0], "f(x, y) + f(y, x) + f(x, 1)", "x, 0; y, 0"),
        ("x", [0], "f(x + 1, y)", None),
        ("rest[0]", [0], "f(x, y)", None),
    ],
)
def test_a_size_is_marked_by_one_line(
    argument: str, dims: list[int], call: str, marked: str | None
) -> None:
    varies = [VaryingSizes(["x", "batch"], {argument: dims})]
    patches = list(compiling.recompiles(Trial(Record(), varies=varies)))
    before = f"{HEAD}    {call}\n"
    texts = [patch.change(before) for patch in patches[2:]]
    lines = [f"    torch._dynamo.mark_dynamic({x})\n" for x in (marked or "").split("; ")]
    after = f"{HEAD}{''.join(lines)}    {call}\n"
    wanted = [after] if marked else [None] if argument == "x" else []
    assert texts == wanted

"""Which settings are tried for which breaks, and the line of each."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.repair.patch import COMPILES
from pytest_graphbreak.repair.remedies import settings
from pytest_graphbreak.repair.trial import Trial

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
    (patch,) = settings.propose(item, Trial(Record()))
    assert BREAKS[reason, code] in (patch.change("import torch\n", COMPILES) or "")


def test_other_breaks_have_none() -> None:
    item = Break("dynamo", "Attempted to call function marked as skipped", Frame("a.py", "f", 1))
    assert not list(settings.propose(item, Trial(Record())))


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
    ],
)  # fmt: skip
def test_it_is_one_line_where_the_program_compiles(before: str, after: str) -> None:
    (patch,) = settings.propose(ITEM, Trial(Record()))
    assert patch.change(before, COMPILES) == after.replace("LINE", LINE)

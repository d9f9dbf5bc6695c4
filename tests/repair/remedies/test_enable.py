"""What takes code out of the compiler goes; what only writes runs in eager code."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.remedies import enable
from pytest_graphbreak.repair.remedies.tree import rewriting
from pytest_graphbreak.repair.trial import Site, Trial

pytestmark = pytest.mark.once

HEAD = "import torch\nfrom torch.compiler import disable\n\n\n"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("f", "@torch.compiler.disable\ndef f(x):\n    return x\n", "def f(x):\n    return x\n"),
        (
            "f",
            "@torch._dynamo.disable(recursive=False)\n@other\ndef f(x): pass\n",
            "@other\ndef f(x): pass\n",
        ),
        ("f", "x = 1\nf = torch.compiler.disable(f, reason='slow')  # why\n", "x = 1\n# why\n"),
        ("f", "g = disable(recursive=False, fn=f)\n", "g = f\n"),
        (
            "Model.__init__",
            "class Model:\n    @disable\n    def __init__(self):\n        self.n = 1\n",
            "class Model:\n    def __init__(self):\n        self.n = 1\n",
        ),
        ("m.<locals>.f", "def m():\n    @disable\n    def f(): 0\n", "def m():\n    def f(): 0\n"),
    ],
)
def test_a_function_is_compiled_again(name: str, text: str, wanted: str) -> None:
    assert enable.enabling(name)(HEAD + text) == HEAD + wanted


def test_what_another_library_disables_stays() -> None:
    text = "from other import disable\n\n\n@disable\ndef f(x): pass\n"
    assert enable.enabling("f")(text) is None


def test_a_hook_is_found_whose_call_is_torchs_own_line(tmp_path: object) -> None:
    """``hook(self, args)`` in torch's module.py breaks, and names nothing of the program."""
    file = tmp_path / "a.py"  # type: ignore[operator]
    hook = "@disable(recursive=False)\ndef hook(*args): pass\n"
    file.write_text(f"{HEAD}@disable\ndef other(x): pass\n\n\n{hook}")
    where = Frame("torch/nn/modules/module.py", "Module._call_impl", 9, "hook(self, args)")
    reason = "Skip calling `torch.compiler.disable()`d function"
    item = Break("dynamo", reason, where, explanation="Skip `<function hook at 0>`")
    trial = Trial(Record(), sites={"a.py": Site(file, "a")})
    titles = [f"{name} is compiled: no torch.compiler.disable" for name in ("hook", "other")]
    assert [patch.title for patch in enable.propose(item, trial)] == titles


def test_an_explicit_break_goes() -> None:
    source = "def f(x):\n    y = x + 1\n    torch._dynamo.graph_break()\n    return y\n"
    where = Frame("a.py", "f", 3, "torch._dynamo.graph_break()")
    assert rewriting(enable.no_break, where)(source) == "def f(x):\n    y = x + 1\n    return y\n"

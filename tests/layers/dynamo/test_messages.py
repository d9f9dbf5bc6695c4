"""Dynamo's texts, as torch 2.6 to 2.15 write them."""

# ruff: noqa: E501  # verbatim

from __future__ import annotations

import re

import pytest

from pytest_graphbreak.layers.dynamo.messages import (
    Reason,
    error,
    guard,
    guard_lines,
    limit,
    most_telling,
    reason,
    without_details,
)
from pytest_graphbreak.model.stacks import Line

ITEM = """\
Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.
  Hint: Set `torch._dynamo.config.capture_scalar_outputs = True` or `export TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1` to include these operations in the captured graph.

  Developer debug context: call_method TensorVariable() item () {}

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0124.html"""

ITEM_READ = Reason(
    "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    "GB0124",
    "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.",
    (
        "Set `torch._dynamo.config.capture_scalar_outputs = True` or "
        "`export TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1` to include these operations in the "
        "captured graph.",
    ),
)

LOOP = (
    "Failed to handle graph break gracefully. Skipping the function and falling back to eager. "
    f"Graph break encountered:\n\n{ITEM}\n\n"
    "*** While handling this graph break, another graph break occurred: ***\n\n"
    "graph break in loop\n"
    "  Explanation: torch.compile detected a graph break in a for/while loop.\n"
    "  Hint: This graph break may have been caused by an earlier graph break.\n\n"
    "  Developer debug context: frame skipped: forward (/src/models.py line 961)\n\n"
    " For more details about this graph break, please visit: https://x/gb/gb7000.html"
)

BRANCH = """\
Data-dependent branching
  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow.

      The branch condition involves a tensor computed as follows:
        # File "/src/models.py", line 476, in f, code: if y.sum() > 0:
        gt = gt(sum_1, 0)
    
  Hint: This graph break is fundamental.
    It stays.
  Hint: Use `torch.cond` to express dynamic control flow.
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()
"""  # noqa: W293

HOP = """\
Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Failed to trace builtin operator
  Higher Order Operator: torch.cond
  Explanation: Dynamo does not know how to trace builtin operator `print`
  Hint: Avoid it.

  Developer debug context: builtin print
"""


@pytest.mark.parametrize(
    ("message", "read"),
    [
        (ITEM, ITEM_READ),
        (f"Encountered graph break when attempting to trace CALL: a call:\n\n{ITEM}", ITEM_READ),
        (LOOP, ITEM_READ),
        (f"{ITEM}\nTraceback (most recent call last):\n  File x\nfoo\n  Explanation: y", ITEM_READ),
        (
            BRANCH,
            Reason(
                "Data-dependent branching",
                None,
                "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). "
                "Dynamo does not support tracing dynamic control flow.",
                (
                    "This graph break is fundamental. It stays.",
                    "Use `torch.cond` to express dynamic control flow.",
                ),
            ),
        ),
        (
            HOP,
            Reason(
                "Failed to trace builtin operator",
                None,
                "Dynamo does not know how to trace builtin operator `print`",
                ("Avoid it.",),
            ),
        ),
    ],
)
def test_laid_out(message: str, read: Reason) -> None:
    assert reason(message) == read


@pytest.mark.parametrize(
    ("message", "text", "explanation", "hints"),
    [
        ("Data-dependent jump", "Data-dependent jump", "", ()),
        ("Unsupported: Tensor.item", "Tensor.item", "", ()),
        (
            "Unsupported: builtin: print [<class 'torch._dynamo.variables.X'>] True",
            "builtin: print", "", (),
        ),
        (
            "Unsupported: 'inline in skipfiles: Random.randint | randint /usr/lib/python3.11/"
            "random.py, skipped according trace_rules.lookup SKIP_DIRS'",
            "inline in skipfiles: Random.randint", "", (),
        ),
        (
            "Unsupported: 'skip function grad in file /x/site-packages/torch/autograd/__init__.py'",
            "skip function grad in file __init__.py", "", (),
        ),
        (
            "call torch._dynamo.disable() wrapped function <function g at 0x7f642ecae5c0>",
            "call torch._dynamo.disable() wrapped function g", "", (),
        ),
        (
            "Unsupported: dynamic shape operator: aten.nonzero.default; to enable, set a.b = True",
            "dynamic shape operator: aten.nonzero.default", "", ("set a.b = True",),
        ),
        (
            "Graph break due to unsupported builtin zlib.crc32. This function is a builtin. Or not.",
            "Graph break due to unsupported builtin zlib.crc32", "This function is a builtin. Or not.",
            (),
        ),
        (
            'SKIPPED INLINING <code object __enter__ at 0x7f, file "/usr/contextlib.py", line 132>: ',
            "SKIPPED INLINING __enter__", "", (),
        ),
        ("call_method UserDefined(generator) __iter__ () {}",
         "call_method UserDefined(generator) __iter__", "", ()),
        ("first\nfrom user code:\n  File x", "first", "", ()),
    ],
)  # fmt: skip
def test_free(message: str, text: str, explanation: str, hints: tuple[str, ...]) -> None:
    assert reason(message) == Reason(text, None, explanation, hints)


@pytest.mark.parametrize(
    ("text", "plain_guard"),
    [
        ("0/0: tensor 'L['x']' size mismatch at index 0. expected 4, actual 5",
         "tensor 'x' size mismatch at index 0. expected 4, actual 5"),
        ("!0/1/0: tensor 'x' dtype mismatch. expected Float, actual Double",
         "tensor 'x' dtype mismatch. expected Float, actual Double"),
        ("0/0: L['mode'] == 'a'                                 ", "mode == 'a'"),
        ("0/0: G['SCALE'] == 2          # return x * SCALE  # models.py:3 in f", "SCALE == 2"),
        ("0/0: self.n == 2    # return x  # m.py:8 in forward (HINT: make it dynamic)\n"
         "User stack trace:\n  File \"/src/m.py\", line 8, in forward", "self.n == 2"),
        ("0/0: ___check_obj_id(L['fn']._modules['1'].training, 140071795977984)",
         "___check_obj_id(fn[1].training, ...)"),
        ("0/0: L['self']._modules['head']._parameters['w'].requires_grad == True",
         "self.head.w.requires_grad == True"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "GLOBAL_STATE changed: grad_mode"),
        ("0/0: name == 'a#b'  # x", "name == 'a#b'"),
        ("0/0: BACKEND_MATCH failure: torch.compile detected different backend callables. "
         "Cached backend: <function b at 0x7f00>. New backend: <function c at 0x7f01>. "
         "If this is unexpected, wrap your backend in functools.partial",
         "BACKEND_MATCH failure: torch.compile detected different backend callables. "
         "Cached backend: b. New backend: c."),
    ],
)  # fmt: skip
def test_guards(text: str, plain_guard: str) -> None:
    assert guard(text) == plain_guard
    assert most_telling((text, "0/9: n == 1")) == text


def test_the_lines_of_a_guard() -> None:
    short = (
        "0/0: not hasattr(self, '_n')   # self._n = 1  # t/m.py:8 in forward (optim/x.py:3 in y)"
    )
    assert guard_lines(short) == (Line("t/m.py", 8, "forward", "self._n = 1"),)
    noted = "0/0: self.n == 2      # return x * n  # of two  # t/m.py:8 in f"
    assert guard_lines(noted) == (Line("t/m.py", 8, "f", "return x * n  # of two"),)
    stack = (
        "0/0: self.n == 2    # return x  # m.py:8 in forward (HINT: make it dynamic)\n"
        'User stack trace:\n  File "/src/t.py", line 3, in f\n    x = net(x)\n'
        '  File "/src/m.py", line 8, in forward\n    return x'
    )
    assert [(line.file, line.line) for line in guard_lines(stack)] == [
        ("/src/t.py", 3),
        ("/src/m.py", 8),
    ]
    assert guard_lines("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5") == ()
    assert guard_lines("0/1: p == 0.2  # (unknown source p, please file a bug)") == ()
    assert guard_lines("") == ()


def test_no_guard() -> None:
    assert guard(most_telling(())) == guard("0/0: ") == "Dynamo did not say which guard failed"


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [
        ("RecompileLimitExceeded", "recompile_limit reached", "recompile_limit was reached"),
        ("Unsupported", "cache_size_limit reached", "cache_size_limit was reached"),
        ("Unsupported", "accumulated_cache_size_limit reached",
         "accumulated_cache_size_limit was reached"),
        ("Unsupported",
         "Dynamo recompile limit exceeded\n  Explanation: Dynamo attempted to recompile the code "
         "object too many times, exceeding the recompile_limit cache size limit (currently set to "
         "8).\n\n  Developer debug context: Limit type: recompile_limit",
         "recompile_limit was reached (8)"),
        ("Unsupported", ITEM, None),
        ("RuntimeError", "a limit reached", None),
    ],
)  # fmt: skip
def test_limits(kind: str, message: str, text: str | None) -> None:
    assert limit(kind, message) == text


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [
        ("BackendCompilerFailed", "backend='tt' raised:\nRuntimeError: no /a/b/c.py\n\nSet TORCH",
         "BackendCompilerFailed: the backend tt raised RuntimeError: no c.py"),
        ("Unsupported", ITEM, ITEM_READ.text),
        ("InternalTorchDynamoError", "AttributeError: no x\n\nfrom user code:", "AttributeError: no x"),
        ("TorchRuntimeError", "Failed running call_function\nmore",
         "TorchRuntimeError: Failed running call_function"),
        ("ValueError", "", "ValueError: "),
    ],
)  # fmt: skip
def test_errors(kind: str, message: str, text: str) -> None:
    assert error(kind, message) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("<bound method A.f of <A object at 0x7f>>", "A.f"),
        ("<class 'a.b.C'> and <built-in function len>", "a.b.C and len"),
        ("see https://pytorch.org/a/b.html for /home/me/x.py", "see https://pytorch.org/a/b.html for x.py"),
        ("a/b/c.py and n / m", "a/b/c.py and n / m"),
        ("id 140071795977984, 0xdeadbeef, 12345678, 1.234567890123",
         "id ..., ..., 12345678, 1.234567890123"),
        ("two\n   lines", "two lines"),
    ],
)  # fmt: skip
def test_plain(text: str, clean: str) -> None:
    assert without_details(text) == clean


def test_any_text_is_read() -> None:
    hypothesis = pytest.importorskip("hypothesis")
    st = hypothesis.strategies
    pieces = st.sampled_from(
        ["\n", "  Explanation: ", "  Hint: ", "Developer debug context: ", "'", "(", "/a/b.py", "0/0: ",
         " at 0x7fab12", "<function f at 0x7f>", "L['x']", "# x", "; to enable, ", ". A", ITEM, LOOP]
    )  # fmt: skip
    texts = st.lists(pieces | st.text(max_size=8), max_size=12).map("".join)

    @hypothesis.settings(deadline=None, max_examples=300)
    @hypothesis.given(texts)
    def check(text: str) -> None:
        read = reason(text)
        for line in (read.text, read.explanation, *read.hints, guard(text), error("E", text)):
            assert not re.search(r"\bat 0x[0-9a-f]", line)
            assert "\n" not in line
        assert without_details(without_details(text)) == without_details(text)

    check()

"""Source rewrites: what they write, where, and what they leave alone."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError

CHECKED = (
    "_one, _other = {}\n"
    "torch._check((_one.shape, _one.dtype) == (_other.shape, _other.dtype))\n"
    "{}torch._check(not (_one.requires_grad or _other.requires_grad))\n"
)
IN_PLACE = "torch._check((_one.shape, _one.dtype) == (y.shape, y.dtype))\n"


def rewrite(source: str, kind: str, code: str, function: str = "f") -> str | None:
    return apply(textwrap.dedent(source), kind, Frame("a.py", function, 0, code))


@pytest.mark.parametrize(
    ("body", "values", "wanted"),
    [
        ("if x.sum() > 0:\n    y = a", "a, y", "y = torch.where(x.sum() > 0, _one, _other)"),
        (
            "if x > 0:\n    y += a",
            "y + a, y",
            "y.copy_(torch.where((x > 0).reshape(()), _one, _other))",
        ),
        (
            "if x > 0:\n    y.fill_(a)",
            "torch.full_like(y, a), y",
            "y.copy_(torch.where((x > 0).reshape(()), _one, _other))",
        ),
        (
            "if x > 0:\n    y.add_(a, alpha=2)",
            "y.add(a, alpha=2), y",
            "y.copy_(torch.where((x > 0).reshape(()), _one, _other))",
        ),
        (
            "if x.sum() > 0:\n    y = a\nelse:\n    y = b",
            "a, b",
            "y = torch.where(x.sum() > 0, _one, _other)",
        ),
        (
            "if x.sum() > 0:\n    return a\nelse:\n    return b",
            "a, b",
            "return torch.where(x.sum() > 0, _one, _other)",
        ),
        (
            "if not x.sum() > 0:\n    y = a",
            "a, y",
            "y = torch.where(torch.logical_not(x.sum() > 0), _one, _other)",
        ),
        (
            "if x.sum().item() > 0.1:\n    y = a",
            "a, y",
            "y = torch.where(x.sum().double() > 0.1, _one, _other)",
        ),
    ],
)
def test_a_branch_becomes_where(body: str, values: str, wanted: str) -> None:
    head = "def f(x, y, a, b):\n    # stays\n"
    changed = rewrite(head + textwrap.indent(body, "    ") + "\n", "where", body.splitlines()[0])
    checked = CHECKED.format(values, IN_PLACE if wanted.startswith("y.copy_") else "")
    assert changed == head + textwrap.indent(checked + wanted, "    ") + "\n"


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:\n    y = a\n    z = b",
        "if x.sum() > 0:\n    y = a\nelse:\n    z = a",
        "if x.sum() > 0:\n    y.append(a)",
        "if x.sum() > 0:\n    self.y = a",
        "if x.sum() > 0:\n    y = a\nelif x:\n    y = b",
        "if 0 < x.sum() < 3:\n    y = a",
    ],
)
def test_a_branch_of_another_form_is_left_alone(body: str) -> None:
    source = "def f(x):\n" + textwrap.indent(body, "    ") + "\n"
    with pytest.raises(UnfitError):
        rewrite(source, "where", body.splitlines()[0])


@pytest.mark.parametrize("statement", ["return", "self.y = x", "x.data[0] = 1", "raise E"])
def test_a_block_that_does_more_than_bind_names_is_no_cond(statement: str) -> None:
    source = f"def f(x):\n    if x.sum() > 0:\n        y = x\n        {statement}\n    return y\n"
    with pytest.raises(UnfitError, match="it holds"):
        rewrite(source, "cond", "if x.sum() > 0:")


def test_a_block_that_returns_before_another_return_is_a_cond() -> None:
    source = """
        def f(x, y):
            if x.sum() > 0:
                z = x * 2
                return z, y
            return x, y
    """
    assert rewrite(source, "cond", "if x.sum() > 0:") == textwrap.dedent("""
        def f(x, y):
            def _when_true():
                z = x * 2
                return (z,)

            def _when_false():
                return (x.clone(),)

            (_chosen_0,) = torch.cond(x.sum() > 0, _when_true, _when_false, ())
            return (_chosen_0, y)
    """)


def test_only_the_function_that_was_named_is_changed() -> None:
    source = """
        def g(x):
            print("a")

        class C:
            def f(self, x):
                print("a")
    """
    changed = rewrite(source, "only_eager", 'print("a")', "C.f")
    assert changed is not None
    before, _, after = changed.partition("class C")
    assert "is_compiling" not in before
    assert '        if not torch.compiler.is_compiling():\n            print("a")\n' in after


def test_a_function_inside_a_function_is_found_by_its_qualified_name() -> None:
    source = """
        def test_it():
            def f(x):
                torch._dynamo.graph_break()
                return x
    """
    code = "torch._dynamo.graph_break()"
    changed = rewrite(source, "drop_graph_break", code, "test_it.<locals>.f")
    assert changed is not None
    assert "        pass\n" in changed
    assert rewrite(source, "drop_graph_break", code, "f") is None


def test_disable_comes_off_and_other_decorators_stay() -> None:
    source = """
        @first
        @torch.compiler.disable(recursive=False)
        def helper(x):
            return x
    """
    changed = rewrite(source, "enable", "", "helper")
    assert changed == "\n@first\ndef helper(x):\n    return x\n"


def test_what_does_not_parse_is_left_alone() -> None:
    assert rewrite("def f(:", "where", "if x:") is None


def test_a_tensor_of_a_number_becomes_the_number() -> None:
    source = "def f(x):\n    return x * torch.tensor(3.0) + torch.tensor([1]) + torch.tensor(x)\n"
    changed = rewrite(source, "number", source.splitlines()[1].strip())
    assert changed == source.replace("torch.tensor(3.0)", "3.0")
    assert rewrite("def f(x):\n    return x\n", "number", "return x") is None


def test_a_flag_of_a_size_is_decided_while_it_is_traced() -> None:
    source = "def f(x, n):\n    return attend(x, scale=2 * n, causal=n > 1)\n"
    assert rewrite(source, "plain_flags", "return attend(x, scale=2 * n, causal=n > 1)") == (
        "def f(x, n):\n    return attend(x, scale=2 * n, causal=True if n > 1 else False)\n"
    )
    assert rewrite("def f(x):\n    return x > 1\n", "plain_flags", "return x > 1") is None


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ("itertools.groupby(x, f)", "itertools.groupby(x, key=f)"),
        ("groupby(list(x), lambda y: y[0])", "groupby(list(x), key=lambda y: y[0])"),
        ("itertools.groupby(x, key=f)", None),
        ("itertools.groupby(x)", None),
        ("itertools.groupby(*x)", None),
    ],
)
def test_groupby_is_given_its_key_by_name(call: str, becomes: str | None) -> None:
    source = f"def f(x):\n    return [k for k, _ in {call}]\n"
    wanted = None if becomes is None else source.replace(call, becomes)
    assert rewrite(source, "group_key", "") == wanted


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        (
            "torch_compilable_check(ok, f'{n} of {m}')",
            "torch_compilable_check(ok, lambda: f'{n} of {m}')",
        ),
        (
            "u.torch_compilable_check(ok, 'a' f' {n}', ValueError)",
            "u.torch_compilable_check(ok, lambda: 'a' f' {n}', ValueError)",
        ),
        (
            "torch_compilable_check(cond=ok, msg=f'{n}')",
            "torch_compilable_check(cond=ok, msg=lambda: f'{n}')",
        ),
        ("torch_compilable_check(ok, 'all fixed')", None),
        ("torch_compilable_check(ok, lambda: f'{n}')", None),
        ("another_check(ok, f'{n}')", None),
    ],
)
def test_the_message_of_a_check_is_written_later(call: str, becomes: str | None) -> None:
    source = f"def f(ok, n, m):\n    if n:\n        {call}\n    return n\n"
    wanted = None if becomes is None else source.replace(call, becomes)
    assert rewrite(source, "later_messages", "") == wanted


@pytest.mark.parametrize(
    "line",
    [
        "logs = {'loss': loss.item(), 'n': 1}",
        "self.best = loss.item()",
        "best = self.best = min(best, loss.item())",
        "self.total += loss.item() * n",
        "self.losses.append(loss.item())",
        "self.losses.extend([n, float(loss)])",
    ],
)
def test_a_number_that_an_object_keeps_does_not_become_a_tensor(line: str) -> None:
    source = f"def f(self, loss, n):\n    {line}\n    return loss\n"
    with pytest.raises(UnfitError, match="kept by an object"):
        apply(source, "keep_tensor", Frame("a.py", "f", 2, line))


@pytest.mark.parametrize("call", ["random.randrange(2)", "np.random.rand()"])
def test_a_side_that_draws_in_python_stays_python(call: str) -> None:
    """Its number would be drawn even if the side does not run."""
    source = f"def f(x):\n    if x.sum() > 0:\n        x = x * {call}\n    return x\n"
    with pytest.raises(UnfitError, match="draws random numbers"):
        apply(source, "cond", Frame("a.py", "f", 2, "if x.sum() > 0:"))


def test_a_decorator_is_put_behind_one_that_makes_a_property() -> None:
    source = "class A:\n    @cached\n    @property\n    @other\n    def f(self):\n        pass\n"
    changed = rewrite(source, "leave_compiler", "pass", "A.f")
    assert changed is not None
    wanted = ["@cached", "@property", "@torch.compiler.disable", "@other"]
    assert [line.strip() for line in changed.splitlines()[1:5]] == wanted

"""The pages: all there, all taken apart as they are meant, and true of the torch that is here."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import pytest

from pytest_graphbreak.advice import explanation
from pytest_graphbreak.advice.explanation import by_name, parse_page

pytestmark = pytest.mark.once

PAGES = Path(explanation.__file__).parent / "pages"
TEXT = """
What it means,
on two lines.

A second paragraph.

## Why
Because.

## Instead
- One thing
  on two lines.
- Another.

## Example
It shows something.
inputs: (1,), (2,)
needs: xla
```python
def f(x):
    return x
```
```python
def f(x):

    return x + 1
```
"""


def test_a_page_is_taken_apart() -> None:
    found = parse_page(TEXT)
    assert found.meaning == "What it means, on two lines.\n\nA second paragraph."
    assert found.why == "Because."
    assert found.instead == ("One thing on two lines.", "Another.")
    assert found.switches == ()
    (example,) = found.examples
    assert example.note == "It shows something."
    assert example.inputs == "(1,), (2,)"
    assert example.needs == "xla"
    assert example.before == "def f(x):\n    return x\n"
    assert example.after == "def f(x):\n\n    return x + 1\n"


def test_every_family_has_a_page_and_every_page_a_family() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == set(by_name())


ORDERS = (["Why", "Instead"], ["Why", "Instead", "Switch"])
"""The sections of a page, besides its examples."""


@pytest.mark.parametrize("name", sorted(by_name()))
def test_a_page_says_what_to_write_instead(name: str) -> None:
    found = explanation.load_page(name)
    sections = re.findall(r"^## +(\S+)$", _text(name), re.MULTILINE)
    assert [heading for heading in sections if heading != "Example"] in ORDERS
    assert found.meaning
    assert found.why
    assert found.instead
    for example in found.examples:
        assert example.before != example.after
        assert example.needs in ("", "xla", "jax")
        for code in (example.before, example.after):
            compile(code, name, "exec")
            assert max(map(len, code.splitlines())) <= 92


@pytest.mark.parametrize("name", sorted(by_name()))
def test_a_page_refers_only_to_names_that_are_there(name: str) -> None:
    for other in re.findall(r"graphbreak explain ([\w-]+)", _text(name)):
        assert other in by_name()


@pytest.mark.parametrize("name", sorted(by_name()))
def test_the_names_of_torch_that_a_page_mentions_are_there(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("pages name what newer torch has")
    for dotted in re.findall(r"\btorch(?:\.[A-Za-z_]\w*)+", _text(name)):
        if dotted not in MADE_UP:
            operator.attrgetter(dotted.removeprefix("torch."))(torch)


MADE_UP = {"torch.jit.freeze", "torch.jit.script", "torch.jit.trace"}
"""Names that are checked by use, or are going away."""


def _text(name: str) -> str:
    return (Path(explanation.__file__).parent / "pages" / f"{name}.md").read_text(encoding="utf-8")

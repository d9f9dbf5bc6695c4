"""What calls Python, by the location that JAX gives the operation."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.jax.executables import ModuleContents, callback, read_module
from pytest_graphbreak.model.stacks import Line

pytestmark = pytest.mark.jax

# As jax 0.10.2 prints them; 0.4.38 writes no name before the first bracket, and no end of a range.
NOW = (
    'loc("pure_callback:"("jit(step)/pure_callback"(callsite("helper"("/me/a.py":24:11 to :77) at '
    'callsite("step"("/me/a.py":27:8 to :21) at "<module>"("/me/run.py":32:0 to :28))))))'
)
BEFORE = (
    'loc("jit(step)/jit(main)/debug_callback"(callsite("step"("/me/a.py":27:8) at '
    '"<module>"("/me/run.py":32:0))))'
)
IN_A_LOOP = 'loc("debug_print:"("debug_print"("body"("/me/a.py":34:4 to :47))))'


@pytest.mark.parametrize(
    ("location", "kind", "names"),
    [
        (NOW, "jax.pure_callback", ["<module>", "step", "helper"]),
        (BEFORE, "jax.debug.callback", ["<module>", "step"]),
        (IN_A_LOOP, "jax.debug.print", ["body"]),
        ("loc(unknown)", "a callback", []),
    ],
)
def test_the_function_and_the_lines(location: str, kind: str, names: list[str]) -> None:
    found = callback(location)
    assert (found.kind, [line.name for line in found.stack]) == (kind, names)


def test_the_innermost_line_is_the_last() -> None:
    assert callback(NOW).stack[-1] == Line("/me/a.py", 24, "helper")


def test_of_a_module_that_cannot_be_read_nothing_is_known() -> None:
    assert read_module(object()) == ModuleContents()

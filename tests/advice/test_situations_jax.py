"""What a red test says of programs of JAX makes it green."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from tests.advice.situations import Situation, follow, jax_programs
from tests.conftest import Suite

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("row", jax_programs.SITUATIONS, ids=str)
def test_what_a_red_test_says_of_jax_makes_it_green(row: Situation, suite: Suite) -> None:
    def run(program: str, *arguments: str) -> pytest.RunResult:
        suite.write(program)
        return suite.run(*arguments)

    follow(row, run)

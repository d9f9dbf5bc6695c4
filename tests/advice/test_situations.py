"""Every line after ``fix:`` is a promise: followed literally, the program is green."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.advice import running
from tests.advice.situations import Situation, breaks, follow, recompiles
from tests.conftest import Suite
from tests.examples import sample

pytestmark = pytest.mark.once

HERE = (*breaks.SITUATIONS, *recompiles.SITUATIONS)


@pytest.mark.parametrize("row", sample(HERE, HERE[::2]), ids=str)
def test_what_a_red_test_says_makes_it_green(row: Situation, suite: Suite) -> None:
    def run(program: str, *arguments: str) -> pytest.RunResult:
        suite.write(program)
        with running.clean_dynamo():
            return suite.run(*arguments)

    follow(row, run)

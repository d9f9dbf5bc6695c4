"""What a red test says of programs of JAX makes it green."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from tests.advice.situations import Situation, follow, jax_programs
from tests.conftest import Suite

pytestmark = pytest.mark.jax


@pytest.mark.parametrize("row", jax_programs.SITUATIONS, ids=str)
def test_what_a_red_test_says_of_jax_makes_it_green(
    row: Situation, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    if row.devices > 1:
        # JAX reads it when it opens its first device, which this process may have done.
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        monkeypatch.setenv("XLA_FLAGS", f"--xla_force_host_platform_device_count={row.devices}")

    def run(program: str, *arguments: str) -> pytest.RunResult:
        suite.write(program)
        if row.devices > 1:
            return suite.pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
        return suite.run(*arguments)

    follow(row, run)

"""Why there is no CUDA graph, in a user's words. The reasons are those of torch 2.9 to 2.13."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.inductor.skips import PREFIX, skip_line, skip_words
from pytest_graphbreak.model.stacks import Line

pytestmark = pytest.mark.pure

REASONS = {
    "skipping cudagraphs due to multiple devices: ": "nothing of it runs on a GPU",
    "skipping cudagraphs due to cpu device (arg1_1)": "a tensor on the CPU",
    "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), cpu": "on the CPU",
    "skipping cudagraphs due to mutated inputs (1 instances)": "writes to an input in place",
    "input storage mutation (2 instances)": "writes to an input in place",
    "['non-Tensor inputs']": "an input is no tensor",
    "skipping cudagraph due to function 0 exceeding max re-recording limit (=128) on cudagraph "
    "node 3 due to static input data pointer changed.": "recorded too often",
    "skipping cudagraphs due to dynamic shape padding": "known only on the device",
    "skipping cudagraphs due to complex memory overlap": "overlaps itself",
    "no part of it can be recorded": "none of its parts",
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_in_a_users_words_and_says_what_to_do(reason: str) -> None:
    words = skip_words(reason)
    assert words.startswith(PREFIX)
    assert REASONS[reason] in words
    assert not any(value in words for value in ("arg1_1", "128", "instances"))


def test_a_reason_that_is_not_known_stays_without_its_values() -> None:
    assert skip_words("skipping cudagraphs due to new thing (buf3) 17") == (
        "no CUDA graph: new thing"
    )


def test_the_line_that_torch_names() -> None:
    reason = (
        "skipping cudagraphs due to cpu device (arg1_1). Found from : \n"
        '   File "/src/model.py", line 12, in forward\n    return x + self.table\n'
    )
    assert skip_line(reason) == Line("/src/model.py", 12, "forward", "return x + self.table")
    assert skip_line("skipping cudagraphs due to multiple devices: ") is None

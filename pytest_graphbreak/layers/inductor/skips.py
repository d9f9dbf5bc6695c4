"""Why inductor records no CUDA graph where one was asked for, in a user's words.

``observer`` hands over torch's reason, of a graph that was compiled or of a skip at run time:

    skipping cudagraphs due to cpu device (arg1_1). Found from :
       File "/src/model.py", line 12, in forward
        return x + self.table

``skip_words`` says what it means and what to do, ``skip_line`` which line it is.

Sources: torch/_inductor/cudagraph_utils.py, cudagraph_trees.py and lowering.py of 2.9 to 2.13.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.stacks import Line

PREFIX: Final = "no CUDA graph: "
"""How each text of ``skip_words`` begins; ``observer`` finds it by that in a graph's reason."""

WORDS: Final = (
    # skipping cudagraphs due to multiple devices:
    (r"multiple devices:\s*$", "nothing of it runs on a GPU; move model and inputs to cuda"),
    # skipping cudagraphs due to cpu device (arg1_1)
    (
        r"cpu device|multiple devices",
        "a tensor on the CPU takes part; move it to the GPU, or make it there (device=x.device)",
    ),
    # skipping cudagraphs due to mutated inputs (1 instances)
    (
        r"mutated inputs|storage mutation",
        "it writes to an input in place; return a new tensor, or make the input static "
        "(torch._dynamo.mark_static_address)",
    ),
    # skipping cudagraph due to function 0 exceeding max re-recording limit (=128) on cudagraph ...
    (
        r"re-?recording limit",
        "it was recorded too often; keep its inputs at one address and in one shape",
    ),
    # skipping cudagraphs due to dynamic shape padding
    (
        r"dynamic|symint|unbacked|_local_scalar_dense|\bitem\b|nonzero",
        "a size or value is known only on the device; keep it a tensor, or pad to a fixed size",
    ),
    # ['non-Tensor inputs']
    (r"non-?tensor", "an input is no tensor; pass it as a tensor"),
    # skipping cudagraphs due to complex memory overlap
    (r"complex memory|overlap", "a tensor overlaps itself; call .contiguous() on it first"),
    (r"allocator|expandable", "the caching allocator is off (PYTORCH_NO_CUDA_MEMORY_CACHING)"),
    (r"cpp.?wrapper", "cpp_wrapper is on; turn it or CUDA graphs off"),
    (
        r"determinis|incompatible|unsafe|custom op|hop|cond|while",
        "an operation in it cannot be recorded; compile the part around it by itself",
    ),
    # no part of it can be recorded: the words of ``sensors`` where torch gives no reason
    (r"no part of it", "none of its parts can be recorded; look for operations on the CPU"),
)
"""What torch says, as a pattern, and what we say; the first that is found counts."""
_VALUES: Final = re.compile(r"[(\[{].{0,200}?[)\]}]|\d+")
"""Numbers, and all that is in brackets, which may differ in the next run: ``(arg1_1)``, ``128``."""


def skip_words(reason: str) -> str:
    """Return why there is no CUDA graph and what to do, without values that change by run.

    A reason that no pattern knows is said in torch's words.
    """
    text = reason.partition("Found from")[0].strip()
    for pattern, advice in WORDS:
        if re.search(pattern, text, re.I):
            return f"{PREFIX}{advice}"
    first = text.partition("\n")[0].removeprefix("skipping cudagraphs due to ")
    without_values = " ".join(_VALUES.sub("", first).split())
    return f"{PREFIX}{without_values[:200].strip(' .,') or 'torch gives no reason'}"


def skip_line(reason: str) -> Line | None:
    """Return the line of source that torch names in a reason; None if it names none."""
    lines = stacks.read(reason.partition("Found from")[2])
    return lines[-1] if lines else None

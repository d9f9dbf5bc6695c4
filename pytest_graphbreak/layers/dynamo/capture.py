"""Code that Dynamo comes to while torch itself is compiling: it is nobody's.

Elsewhere Dynamo's hook is off while torch compiles. It is in while compiled autograd captures a
backward pass, and while code that left the compiler makes fake tensors. Then it comes to what
works out symbolic sizes (sympy), as far as no answer is cached, and to what is imported there.
"""

from __future__ import annotations

import re
from types import FrameType
from typing import Final

_CAPTURE: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]compiled_autograd\.py$")
_RUNS: Final = "runtime_wrapper"
"""The function of that file that runs what was captured; all others capture."""
_SIZES: Final = re.compile(
    r"[/\\]torch[/\\](?:_subclasses|utils[/\\]_sympy)[/\\]"
    r"|[/\\]torch[/\\]fx[/\\]experimental[/\\](?:recording|sym_node|symbolic_shapes)\.py$"
)
_HOOK: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]convert_frame\.py$")
_TORCH: Final = re.compile(r"[/\\]torch[/\\]")


def in_capture(frame: FrameType | None) -> bool:
    """Whether torch itself was compiling when Dynamo's hook was called; ``frame`` is the hook's."""
    nearest = True
    while frame is not None:
        file = frame.f_code.co_filename
        if _CAPTURE.search(file) and frame.f_code.co_name != _RUNS:
            return True
        if nearest and _TORCH.search(file) and not _HOOK.search(file):
            if _SIZES.search(file):
                return True
            nearest = False
        frame = frame.f_back
    return False

"""The private name of torch that the cudagraph layer hooks: its module, and what is in it."""

from __future__ import annotations

from typing import Final

RECORD: Final = ("torch._inductor.cudagraph_trees", "CUDAGraphTreeManager.record_function")
"""Records a function, also again. Without it a second recording is counted as a first one."""

"""The private names of torch that the inductor layer hooks or reads: a module, and what is in it.

Read in torch 2.6 to 2.13, and run on 2.9 and 2.13.
"""

from __future__ import annotations

from typing import Final

Name = tuple[str, str]

INIT: Final[Name] = ("torch._inductor.output_code", "CompiledFxGraph.__init__")
POST_COMPILE: Final[Name] = ("torch._inductor.output_code", "CompiledFxGraph.post_compile")
# These two only explain: without them graphs are counted all the same.
HASH: Final[Name] = ("torch._inductor.codecache", "compiled_fx_graph_hash")
SKIP: Final[Name] = ("torch._inductor.cudagraph_trees", "log_cudagraph_skip_and_bump_counter")
# Attributes of a graph: its code, and its operations with their lines. Without them no fallback has
# a name.
TEXTS: Final = ("source_code", "inductor_post_grad_graph_str")

GUARDS: Final = "torch._guards"
"""The module of ``CompileContext``, which knows the frame that is compiled."""

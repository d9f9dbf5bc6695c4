"""Families of device graphs, by the cause that the record gives each of them."""

from __future__ import annotations

from pytest_graphbreak.advice.family import Family, Sign

_SCALAR = r"shape \[\]|\bscalar\b"

DEVICE: tuple[Family, ...] = (
    Family(
        "scalar",
        "a tensor with no dimensions that is on the CPU, or was moved by itself",
        "a Python number (x * 0.5), or a buffer of the module (register_buffer)",
        (Sign(reason=r"^(split|pending)\b", detail=_SCALAR),),
    ),
    Family(
        "split-cpu",
        "an FX graph cut at a tensor that is on the CPU, or was moved there",
        "move the tensor to the device once, in __init__ (register_buffer), not in forward",
        (Sign(reason=r"^split\b", detail=r"\bCPU tensor\b|\bmoved to the CPU\b"),),
    ),
    Family(
        "split",
        "an FX graph cut at an op that XLA does not have",
        "ops that XLA has, or move this op before or after the rest",
        (Sign(reason=r"^split\b"),),
    ),
    Family(
        "access",
        "a value of a device tensor was read",
        "read values once, at the end, after torch_xla.sync(): no .item(), print or if in between",
        (Sign(reason=r"^access\b"),),
    ),
    Family(
        "sync",
        "torch_xla.sync() cut the work here",
        "one torch_xla.sync() at the end of the step, not one after each part",
        (Sign(reason=r"^sync\b"),),
    ),
    Family(
        "pending",
        "an input of a compiled function was still waiting to be computed",
        "make inputs on the CPU and move them, or torch_xla.sync() once before the compiled call",
        (Sign(reason=r"^pending\b"),),
    ),
    Family(
        "reshard",
        "a sharded tensor was gathered to be read",
        "read sharded tensors once, at the end; compare on the device and read one number",
        (Sign(reason=r"^reshard\b"),),
    ),
    Family(
        "device-recompile",
        "a graph compiled again for other shapes or constants",
        "pad inputs to a few sizes (buckets), and pass numbers that vary as tensors",
        (Sign(reason=r"^recompile\b"),),
    ),
    Family(
        "backward",
        "the backward of a device graph",
        "mend the breaks and splits of the forward: its backward is cut where it is cut",
        (Sign(reason=r"^backward\b"),),
    ),
    Family(
        "other",
        "a device graph whose cause is not known",
        "PT_XLA_DEBUG_LEVEL=2 PT_XLA_DEBUG_FILE=xla.txt and this test alone: the file may say it",
        (Sign(reason=r"^other\b"),),
    ),
)

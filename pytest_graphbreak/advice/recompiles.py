"""Families of recompiles, by the guard that failed. The first that fits is taken.

Guards are Python expressions in torch's words: 2.6 writes ``L['n'] == 3``,
2.13 writes ``n == 3``.
"""

from __future__ import annotations

from pytest_graphbreak.advice.family import LIMIT, Family, Sign

RECOMPILES: tuple[Family, ...] = (
    Family(
        "stack",
        "a number that came out of a graph break",
        "mend the break that made this number, or make it a tensor before it is used",
        (Sign(reason=r"___stack\d"),),
    ),
    LIMIT,
    Family(
        "zero-one",
        "a dimension of size 0 or 1",
        "0 and 1 get graphs of their own: pad them away, or "
        "torch._dynamo.decorators.mark_unbacked(x, 0)",
        (
            Sign(reason=r"\b2 <= \S*size\(\)\[\d+\](?!\S| <=)"),
            Sign(reason=r"size mismatch at index \d+\. expected [01], actual"),
            Sign(reason=r"size mismatch at index \d+\. expected \d+, actual [01]\b"),
        ),
    ),
    Family(
        "size",
        "a tensor's shape that varies",
        "many sizes: torch._dynamo.mark_dynamic(x, 0), or dynamic=True; on a device pad to a few",
        (Sign(reason=r"size mismatch|rank mismatch"),),
    ),
    Family(
        "stride",
        "a tensor's memory layout that varies",
        "x.contiguous() before the compiled function",
        (Sign(reason=r"stride mismatch|stride\(\)|storage_offset"),),
    ),
    Family(
        "dtype",
        "a dtype that varies",
        "convert to one dtype before the compiled function",
        (Sign(reason=r"dtype mismatch|changed: default_dtype|\.dtype\b"),),
    ),
    Family(
        "requires-grad-varies",
        "requires_grad that varies",
        "call it with one requires_grad; x.detach() where no gradient is needed",
        (Sign(reason=r"requires_grad mismatch"),),
    ),
    Family(
        "grad-mode",
        "grad mode, autocast or another global setting that varies",
        "enter no_grad, inference_mode, autocast once around all calls, the warm-up too",
        (
            Sign(reason=r"GLOBAL_STATE changed|torch.?function mode|inference_mode"),
            Sign(reason=r"dispatch key set mismatch.{0,500}Autocast"),
        ),
    ),
    Family(
        "device-varies",
        "a device that varies",
        "move inputs to one device before the compiled function",
        (Sign(reason=r"dispatch key|device mismatch|\.device\b|device index"),),
    ),
    Family(
        "training",
        "train() and eval() each have a graph",
        "one mode for each test; a graph for train() and one for eval() is as it should be",
        (Sign(reason=r"\.training\b"),),
    ),
    Family(
        "type",
        "an argument whose type varies",
        "pass one type: always a tensor (not a Parameter), always the same class",
        (
            Sign(reason=r"expected type of|check_type_id|type\(.{0,200}\) (is|==)"),
            Sign(reason=r"\bis None\b|is not None"),
        ),
    ),
    Family(
        "length",
        "a list or dict whose length varies",
        "torch.stack the list to one tensor, or pad the list to one length",
        (Sign(reason=r"\blen\(|dict.keys|dict_version|(dict|set)_contains|keys\(\)"),),
    ),
    Family(
        "alias",
        "arguments that are sometimes the same tensor",
        "pass tensors that are always distinct (x.clone()), or always the same",
        (Sign(reason=r"duplicate tensors|^(\S+: )?\S+ is (not )?\S+|overlap"),),
    ),
    Family(
        "backend-object",
        "another backend object",
        "build the backend once and pass the same object to every torch.compile",
        (Sign(reason=r"BACKEND_MATCH|check_current_backend"),),
    ),
    Family(
        "object",
        "a function, object or flag that is another one in each call",
        "make the function or object once, outside, and pass the same one each time",
        (Sign(reason=r"check_obj_id|\bid\(.{0,200}\) ==|weakref"),),
    ),
    Family(
        "shape-branch",
        "Python code that branches on a size",
        "take the branch on the size away, or pad to sizes on one side of it",
        (Sign(reason=r"size\(\)\[\d+\]|\b(Eq|Ne|Mod)\(|% \d+ [!=]="),),
    ),
    Family(
        "value",
        "a Python value that varies",
        "pass it as a tensor (torch.tensor(n)), or keep it the same from call to call",
        (Sign(reason=r"=="),),
    ),
)

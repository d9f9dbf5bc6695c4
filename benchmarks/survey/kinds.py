"""The kinds of repairs: what each holds for, and how often it compiles again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from benchmarks.survey.data import Plain


def is_whole(repair: Plain) -> bool:
    """Whether no break is left, and no input says that something else is computed."""
    return not repair["breaks"][1] and not repair.get("unseen", {}).get("differs")


_KINDS: Final = {
    "program": (
        "lines of the program",
        "none for other values: the graph reads none of them. Attention under a mask works out the "
        "scores of the whole sequence, and raises where its output is not finite",
    ),
    "switch": (
        "switches of Dynamo (`capture_scalar_outputs`, `allow_rnn`)",
        "none for other values: numbers and sizes are nodes of the graph. A check of the class "
        "that becomes a node raises RuntimeError in place of its own exception. There is a graph "
        "for each batch size where a loop over the rows, outside of the graph before, is unrolled "
        "in it",
    ),
    "drops": ("output that compiled code does not write", "none; a line of a log is lost"),
    "constants": (
        "constants of a deployment (`fix --assume`)",
        "a graph for each shape of an image and each padding, up to the recompile limit (8), then "
        "code without the compiler; RuntimeError where the number depends on other values",
    ),
}
"""What a repair is, and what it costs when inputs vary."""


def repaired_whole(repair: Plain) -> bool:
    """Whether a class broke, and is left without a break."""
    return repair["status"] == "ran" and bool(repair["breaks"][0]) and is_whole(repair)


def kind(repair: Plain) -> str:
    """Return the kind of a repair by its patches: the one that promises least."""
    titles = " ".join(repair.get("kept", ()))
    if "constants of the graph" in titles:
        return "constants"
    if "runs only where" in titles or "silent" in titles:
        return "drops"
    changed = (
        *("loop goes over", "torch.where", "torch.cond", "while_loop"),
        *("under a mask", "indices of all rows", "message with a size"),
    )
    return "program" if any(one in titles for one in changed) else "switch"


def kinds_of(repairs: Sequence[Plain]) -> Counter[str]:
    return Counter(kind(each) for each in repairs if is_whole(each))


def by_kind(repairs: Sequence[Plain], held: Sequence[Plain]) -> str:
    kinds = {each["model"]: kind(each) for each in repairs if repaired_whole(each)}
    seen = [each for each in unbroken_of(held) if each["model"] in kinds]
    counts = Counter(kinds.values())
    of = Counter(kinds[name] for name in {each["model"] for each in seen})
    more = {each["model"] for each in seen if often(each, "unseen") > often(each)}
    again = Counter(kinds[name] for name in more)
    rows = "\n".join(
        f"| {what} | {counts[one]} | {of[one]} | {again[one]} | {cost} |"
        for one, (what, cost) in _KINDS.items()
    )
    return (
        "By what the repair is; of several patches of a class the one that promises least. *Held* "
        "are the classes that were held to unseen inputs, *again* those of them that were compiled "
        "again for more of these inputs than before the repair:\n\n"
        "| kind | classes | held | again | cost when inputs vary |\n"
        f"| --- | ---: | ---: | ---: | --- |\n{rows}\n"
    )


def drawn(repairs: Sequence[Plain], count: int, seed: int) -> list[str]:
    """Return so many names, by chance, of the classes that are left without a break."""
    whole = [each["model"] for each in repairs if each["status"] == "ran" and each["breaks"][0]]
    left = {each["model"] for each in repairs if each.get("breaks", [0, 0])[1]}
    return random.Random(seed).sample(sorted(set(whole) - left), count)


def unbroken_of(held: Sequence[Plain]) -> list[Plain]:
    """Return the results for unseen inputs of repairs that leave no break."""
    return [each for each in held if each.get("unseen") and not each["breaks"][1]]


def often(repair: Plain, side: str = "unpatched") -> int:
    """Return for how many inputs after the second of a kind a graph was compiled."""
    return sum((repair.get(side, {}).get("again") or {}).values())

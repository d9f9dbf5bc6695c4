"""The parts of the page that say what was repaired, and to which inputs repairs are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from benchmarks.survey.counts import by_family, by_paper
from benchmarks.survey.data import Plain, as_code, cell, joined, short_file
from benchmarks.survey.kinds import (
    by_kind,
    drawn,
    is_whole,
    kind,
    often,
    repaired_whole,
    unbroken_of,
)

_DRAW: Final = (12, 27)


def _drawn(repairs: Sequence[Plain], again: Sequence[Plain]) -> str:
    """Describe the classes that were drawn and run again, with inputs that vary."""
    if not again:
        return ""
    ran = {each["model"] for each in again}
    names = drawn(repairs, *_DRAW)
    missing = [name for name in names if name not in ran]
    besides = sorted(ran - set(names))
    more = sorted({each["model"] for each in again if often(each, "unseen") > often(each)})
    ordered = sorted(again, key=lambda each: (each["model"], each.get("assume", False)))
    rows = [_row(each, "`--assume`" if each.get("assume") else "") for each in ordered]
    plain = [each for each in again if not each.get("assume")]
    holds = [each for each in plain if is_whole(each)]
    before = {each["model"] for each in repairs if repaired_whole(each)}
    lost = [each["model"] for each in plain if each["model"] in before and not is_whole(each)]
    lower = sorted(each["model"] for each in again if each.get("unseen", {}).get("limit"))
    stored = {each["model"] for each in repairs if kind(each) == "constants"}
    now = [each["model"] for each in holds if each["model"] in stored and kind(each) == "switch"]
    return (
        f"{len(names)} of the classes were drawn (`python -m benchmarks.survey.repairs --draw "
        f"{_DRAW[0]}:{_DRAW[1]}`), and {len(names) - len(missing)} of them run again with this "
        "release, with at most 6 to 10 runs for each; where the repair is a constant of a "
        f"deployment, with `--assume`. Of the {len(plain)} that were run without `--assume`, "
        f"{len(holds)} are left without a break."
        + (f" Repaired before, and not now: {', '.join(lost)}." if lost else "")
        + (f" Repaired by constants before, and not now: {', '.join(now)}." if now else "")
        + (f" Not run again, for want of time: {', '.join(missing)}." if missing else "")
        + (f" Run again, but not drawn: {', '.join(besides)}." if besides else "")
        + " What `fix` wrote was then called in a process of its own with "
        "inputs that the search never used: drawn again, and eleven paddings, batch sizes and "
        "lengths, image shapes or image sizes each, as far as the class takes them. Equal is to "
        "the plain class without the compiler; *again* are the inputs after the second of a kind "
        "for which a graph was compiled, and the graphs that were compiled for all of them, before "
        "and after the repair. A class of one graph that is compiled 7 times more has reached the "
        "recompile limit (8): the inputs after that ran without the compiler. "
        + (f"{_LOWER.format(', '.join(lower))} " if lower else "")
        + (f"More often than before the repair: {', '.join(more)}." if more else _NO_MORE)
        + _table(rows, again)
    )


def _row(each: Plain, way: str) -> str:
    counts = (f"{each[key][0]} to {each[key][1]}" for key in ("breaks", "graphs"))
    return " | ".join((each["model"], way, *counts, *_held_to(each)))


def _table(rows: Sequence[str], held: Sequence[Plain]) -> str:
    """Return the table of classes that were held to unseen inputs, and below it what differs."""
    listed = "\n".join(
        f"- {each['model']}: {words}"
        for each in held
        for words in dict.fromkeys(each.get("unseen", {}).get("differs", ()))
    )
    return (
        "\n\n| class | | breaks | graphs | equal | raise in both | differ | again before | after |"
        "\n| --- | --- | --- | --- | ---: | ---: | ---: | --- | --- |\n"
        + "\n".join(f"| {row} |" for row in rows)
        + "\n"
        + (f"\n{listed}\n" if listed else "")
    )


def _held_of(repairs: Sequence[Plain], held: Sequence[Plain]) -> str:
    """Say how many of the repaired classes were held to inputs that vary, and what they gave."""
    kinds = {each["model"]: kind(each) for each in repairs if repaired_whole(each)}
    seen = [each for each in unbroken_of(held) if each["model"] in kinds]
    if not seen:
        return ""
    names = {each["model"] for each in seen}
    of, counts = Counter(kinds[name] for name in names), Counter(kinds.values())
    sums = [sum(each["unseen"].get(key, 0) for each in seen) for key in ("equal", "raise")]
    other = sorted({each["model"] for each in seen if each["unseen"].get("differs")})
    differ = sum(len(each["unseen"].get("differs", ())) for each in seen)
    more = {each["model"]: _grew(each) for each in seen if often(each, "unseen") > often(each)}
    left = sorted(set(kinds) - {each["model"] for each in held})
    unfixed = {name: words for name, words in more.items() if kinds[name] != "constants"}
    return (
        f"**{len(names)} of these {len(kinds)} classes were held to inputs that the search never "
        f"used**: {sums[0]} outputs are those of the plain class, for {sums[1]} inputs both raise, "
        f"{differ} differ{f' ({joined(other)})' if other else ''}. Of the classes without "
        f"constants {len(names) - of['constants']} of {len(kinds) - counts['constants']} were held"
        + (
            f"; compiled again more often than before the repair: {_named(unfixed)}. "
            if unfixed
            else ". "
        )
        + f"{_after_the_second([each for each in seen if kinds[each['model']] != 'constants'])}"
        + "The three tables below have each class."
        + (f" Not held, for want of time: {joined(left)}.\n" if left else "\n")
    )


def _after_the_second(held: Sequence[Plain]) -> str:
    """Say how many classes are compiled after the second input of a kind, and which often."""
    most = {each["model"]: max((each["unseen"].get("again") or {0: 0}).values()) for each in held}
    many = sorted(name for name, count in most.items() if count > 2)
    return (
        f"Of these {len(most)}, {list(most.values()).count(0)} compile nothing after the second "
        f"input of a kind, {len(most) - len(many) - list(most.values()).count(0)} once or twice "
        f"more, and {len(many)} for many of them, as the plain class does: {joined(many)}. "
    )


def latest(
    repairs: Sequence[Plain], again: Sequence[Plain], unsought: Sequence[Plain]
) -> list[Plain]:
    """Return what each class gave for unseen inputs, of its last repair alone."""
    searched = [each for each in repairs if each.get("unpatched")]
    names = {each["model"] for each in searched}
    return [*(each for each in (*again, *unsought) if each["model"] not in names), *searched]


def _searched(repairs: Sequence[Plain]) -> str:
    """Describe the classes that were searched again, and then held to unseen inputs."""
    ordered = [each for each in repairs if each.get("unpatched") and is_whole(each)]
    if not ordered:
        return ""
    plain = [each for each in ordered if not each.get("assume")]
    assumed = sorted(each["model"] for each in ordered if each.get("assume"))
    never = [each["model"] for each in plain if not each["unseen"].get("again")]
    one = [each["model"] for each in plain if each["unseen"].get("graphs") == 1]
    seconds = sorted(each["seconds"] for each in ordered)
    rows = [_row(each, _SHORT[kind(each)]) for each in sorted(ordered, key=_model)]
    return (
        f"{len(ordered)} classes were searched again with version {_VERSION}, "
        + (f"{joined(assumed)} with `--assume`, the others " if assumed else "")
        + "without it, "
        "with at most 16 runs for each, and held to the same kinds of inputs with a recompile "
        f"limit of 4. A search took {seconds[0]} to {seconds[-1]} s, beside other work on two "
        f"cores. **{len(never)} of them compile nothing after the second input of a kind, "
        f"{len(one)} with "
        "one graph for all inputs.**" + _table(rows, ordered)
    )


def _model(each: Plain) -> str:
    return str(each["model"])


def _named(more: dict[str, str]) -> str:
    return joined(f"{name} ({words})" for name, words in sorted(more.items()))


def _grew(each: Plain) -> str:
    """Return the kinds of inputs for which more are compiled again than before the repair."""
    before, after = (each[side].get("again") or {} for side in ("unpatched", "unseen"))
    return joined(
        f"{what}: {before.get(what, 0)} to {count} of {each['unseen']['kinds'][what]}"
        for what, count in after.items()
        if count > before.get(what, 0)
    )


def _unsought(repairs: Sequence[Plain], unsought: Sequence[Plain]) -> str:
    """Describe the classes whose recorded patches were made again, without a search."""
    if not unsought:
        return ""
    known = {each["model"]: each for each in repairs}
    ordered = sorted(unsought, key=lambda each: each["model"])
    gone = [_failed(each, known[each["model"]]) for each in ordered]
    failed = [words for words in gone if words]
    more = [each["model"] for each in ordered if often(each, "unseen") > often(each)]
    fewer = [each["model"] for each in ordered if often(each, "unseen") < often(each)]
    rows = [_row(each, _SHORT[kind(known[each["model"]])]) for each in ordered]
    return (
        f"{len(unsought)} classes were held without a search. The patches that are recorded "
        "for them, in the table of kept patches, were made again by their titles with "
        f"version {_VERSION} (`python -m benchmarks.survey.repairs --recorded`) and held to the "
        "same kinds of inputs, with a recompile limit of 4, to save time: each input after it "
        f"counts as compiled again. For {len(ordered) - len(failed)} of {len(ordered)} the run has "
        "as many graphs and breaks as was recorded."
        + (f" Not so: {'; '.join(failed)}." if failed else "")
        + (f" More often than before the repair: {', '.join(more)}." if more else f" {_NO_MORE}")
        + (f" Less often: {', '.join(fewer)}." if fewer else "")
        + _table(rows, ordered)
    )


def _failed(each: Plain, known: Plain) -> str:
    """Return what a class lacks of the result that was recorded for it, or ""."""
    if each.get("why"):
        return f"{each['model']} ({each['why']})"
    if each.get("missing"):
        return f"{each['model']} (not proposed any more: {'; '.join(each['missing'])})"
    now, was = ((one["graphs"][1], one["breaks"][1]) for one in (each, known))
    if now == was:
        return ""
    return f"{each['model']} ({now[0]} graphs and {now[1]} breaks, {was[0]} and {was[1]} recorded)"


_SHORT: Final = {
    "program": "lines",
    "switch": "switches",
    "drops": "output",
    "constants": "constants",
}
_VERSION: Final = "0.2.0"
"""The version that ``recorded.jsonl`` was run with, before its release."""
_LOWER: Final = (
    "For {} the limit was 4, to save time, and each input after it counts as compiled again."
)
_NO_MORE: Final = "No class is compiled again for more inputs of a kind than before its repair."


def _held_to(repair: Plain) -> tuple[str, ...]:
    """Return the cells for the inputs that vary; empty if nothing was written."""
    seen = repair.get("unseen")
    if not seen:
        return ("",) * 5
    counts = (
        str(seen.get("equal", 0)),
        str(seen.get("raise", 0)),
        str(len(seen.get("differs", ()))),
    )
    return (*counts, _again(repair.get("unpatched", {})), _again(seen))


def _again(seen: Plain) -> str:
    found = seen.get("again") or {}
    kinds = [f"{count} of {seen['kinds'][what]} {what}" for what, count in found.items()]
    return f"{', '.join(kinds) or 0}; {seen.get('graphs', 0)}"


def repaired_part(
    results: Sequence[Plain],
    repairs: Sequence[Plain],
    again: Sequence[Plain],
    unsought: Sequence[Plain],
) -> str:
    ran = [each for each in repairs if each["status"] == "ran"]
    if not ran:
        return ""
    broken = [each for each in ran if each["breaks"][0]]
    whole = [each for each in broken if is_whole(each)]
    graphs = [sum(each["graphs"][side] for each in broken) for side in (0, 1)]
    classes = sum(bool(each.get("breaks")) for each in results if each["part"] == "base")
    rows = "\n".join(
        f"| {each['model']} | {each['breaks'][0]} | {each['breaks'][1]} | {each['graphs'][0]} "
        f"| {each['graphs'][1]} | {'; '.join(dict.fromkeys(each.get('kept', ())))} |"
        for each in sorted(broken, key=lambda each: (each["breaks"][1], each["model"]))
    )
    left = [
        f"| {each['model']} | {cell(item['reason'])} | `{short_file(item['where'])}` "
        f"{as_code(item.get('code', ''))} | {len(item.get('tried', ()))} |"
        for each in sorted(broken, key=lambda each: each["model"])
        for item in each.get("open", ())
    ]
    parts = [
        "## Results of `graphbreak fix`\n",
        f"It was run on {len(broken)} of the {classes} architectures that break, with at "
        "most 10 to 24 runs for each. "
        f"**{len(whole)} of {len(broken)} are left without a break**, and of {graphs[0]} graphs "
        f"{graphs[1]} are left. Each patch was kept only after a run: the outputs are equal for "
        "the inputs of the survey and four or five kinds of other inputs "
        "([how](../how-to/fix-a-red-test.md#let-it-try-graphbreak-fix)). "
        "`python -m benchmarks.survey.repairs` is the script. If numbers became constants, "
        "images of other sizes are another graph, and numbers that depend on the tokens, such as "
        "whether there is an image at all, raise RuntimeError when they change: they hold for a "
        "deployment whose images, lengths and padding do not vary. What is compiled again for "
        "other inputs `fix` now keeps only with `--assume`, and a patch is held to two other batch "
        "sizes, other positions and image shapes. Except for HunYuanVLModel and the classes in the "
        "next three tables of classes, they were not run again since.\n",
        by_kind(broken, latest(repairs, again, unsought)),
        _held_of(repairs, latest(repairs, again, unsought)),
        _searched(repairs),
        _drawn(repairs, again),
        _unsought(repairs, unsought),
        by_family(results, repairs),
        "| class | breaks | after | graphs | after | kept |",
        f"| --- | ---: | ---: | ---: | ---: | --- |\n{rows}\n",
    ]
    if left:
        parts += [
            "Breaks that could not be fixed, and how many remedies were tried for each. If a "
            "function runs uncompiled as one piece, that is the remedy:\n",
            "| class | reason | where | tried |",
            "| --- | --- | --- | ---: |\n" + "\n".join(left) + "\n",
        ]
    return "\n".join([*(part for part in parts if part), by_paper(ran)])

"""Puts results into the repository and draws the page of them.

    python -m benchmarks.survey.table [build/survey*.jsonl build/repairs*.jsonl build/drawn*.jsonl
                                       build/recorded*.jsonl]

The files of runs are merged into ``results.jsonl`` and ``repairs.jsonl``, a line for
each class, sorted by name; of two results of one class the one that ran stays, else
the later. What was drawn replaces ``drawn.jsonl``; what was made from recorded patches is merged
into ``recorded.jsonl``, the later of two results of a class. Then
``docs/explanation/survey.md`` is written anew; without files only that is done.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.advice.match import short
from pytest_graphbreak.model.record import Break, Frame

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
RESULTS: Final = HERE / "results.jsonl"
REPAIRS: Final = HERE / "repairs.jsonl"
DRAWN: Final = HERE / "drawn.jsonl"
"""The repairs of classes that were drawn, each held to eleven inputs of a kind."""
RECORDED: Final = HERE / "recorded.jsonl"
"""The recorded repairs of other classes, made again without the search, held to the same inputs."""
INDEPENDENT: Final = HERE / "independent.json"
LISTED: Final = HERE / "listed.json"
"""How many classes there are, of each part: what is not in the results was not run."""
PAGE: Final = ROOT / "docs" / "explanation" / "survey.md"

Plain = dict[str, Any]


def read(path: Path) -> list[Plain]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def merged(results: Iterable[Plain]) -> list[Plain]:
    """One result for each class, by name."""
    best: dict[str, Plain] = {}
    for each in results:
        known = best.get(each["model"])
        if known is None or known["status"] != "ran" or each["status"] == "ran":
            best[each["model"]] = each
    return [best[name] for name in sorted(best)]


def written(results: Sequence[Plain]) -> str:
    """The lines of the file: nothing that is empty is written."""
    return "".join(json.dumps(_slim(each), ensure_ascii=False) + "\n" for each in results)


def _slim(each: Plain) -> Plain:
    return {
        key: _slim(value) if isinstance(value, dict) else value
        for key, value in each.items()
        if value not in ([], {}, "", None)
    }


def page(
    results: Sequence[Plain],
    repairs: Sequence[Plain],
    again: Sequence[Plain],
    listed: Plain,
    unsought: Sequence[Plain] = (),
) -> str:
    """The whole page, of the data alone."""
    base = [each for each in results if each["part"] == "base"]
    parts = [
        _INTRODUCTION.format(result=_result(base, repairs, _latest(repairs, again, unsought))),
        _counts(base, listed["base"], "base"),
        _counts([each for each in results if each["part"] == "head"], listed["head"], "head"),
        _generating(results),
        _held(),
        _places(results),
        _repaired(results, repairs, again, unsought),
        _breaking(results),
        _stopped(results),
    ]
    return "\n".join(part for part in parts if part)


_INTRODUCTION: Final = """\
<!-- Written by `python -m benchmarks.survey.table` from benchmarks/survey/*.jsonl: edit those. -->

# A survey of transformers

{result}

The survey compiles every architecture of one release of `transformers` with `torch.compile` and
lists the graphs, the graph breaks, the recompiles and the functions that run without the compiler.
transformers 5.23.0, torch 2.13.0 on the CPU, Python 3.11.

Each class is built from a small random configuration: a layer of each kind, at least two, width 64,
nothing downloaded. It runs once without the compiler. Then it is compiled with the backend `eager`,
which makes Dynamo's graphs and no code, and called twice with the same inputs. Where a class
breaks depends on its configuration and its inputs: the values that decide this are those of the
class itself.
Small models make the same graphs as the full size, layer for layer; a break inside a layer is
counted here for each layer of the small model.

```text
python -m benchmarks.survey.run --out build/survey.jsonl --part base
python -m benchmarks.survey.table build/survey.jsonl
```

The first command can be stopped at any moment and restarted. Each model has a separate process,
with 120 seconds of processor time and 3 GB of memory.
"""


def _result(base: Sequence[Plain], repairs: Sequence[Plain], held: Sequence[Plain]) -> str:
    """The result of the survey in a few lines."""
    ran = [each for each in base if each["status"] == "ran"]
    whole = sum(each.get("graphs") == 1 and not each.get("breaks") for each in ran)
    fixed = [each for each in repairs if each["status"] == "ran" and each["breaks"][0]]
    constants = _kinds(fixed)["constants"]
    others = sum(map(_whole, fixed)) - constants
    plain = {each["model"] for each in fixed if repaired_whole(each) and kind(each) != "constants"}
    seen = [each for each in _unbroken(held) if each["model"] in plain]
    more = len({each["model"] for each in seen if _often(each, "unseen") > _often(each)})
    again = f"\n({more} of these are compiled again for more inputs than before)" if more else ""
    return (
        f"**{_share(whole, len(ran))} of {len(ran)} architectures compile into one graph without a "
        f"break;\n{_share(sum(bool(each.get('breaks')) for each in ran), len(ran))} break at one "
        f"place or more. `graphbreak fix` removed every break\nin {others} of {len(fixed)} of "
        f"those with patches that fix no number{again}, and in\n{constants} more with numbers that "
        "are constant for a deployment, which it now keeps only with `--assume`.**"
    )


def _counts(results: Sequence[Plain], listed: int, part: str) -> str:
    if not results:
        return ""
    ran = [each for each in results if each["status"] == "ran"]
    of = {key: [each for each in ran if each.get(key)] for key in ("breaks", "recompiles", "eager")}
    whole = [each for each in ran if each.get("graphs") == 1 and not each.get("breaks")]
    status = Counter(each["status"] for each in results)
    title = {
        "base": "## The architectures: one class each",
        "head": "## The classes with a head",
    }[part]
    rows = [
        ("classes that transformers lists", str(listed)),
        ("not run yet", str(listed - len(results))),
        ("not built, [see below](#not-built)", str(status["not built"])),
        ("stopped: too much time or memory", str(status["stopped"])),
        ("run without the compiler, and fail with it", str(status["failed compiled"])),
        ("**ran**", f"**{len(ran)}**"),
        ("one graph, no break", _share(len(whole), len(ran))),
        ("**break at one place or more**", f"**{_share(len(of['breaks']), len(ran))}**"),
        ("compile something again, with the same inputs", _share(len(of["recompiles"]), len(ran))),
        ("run a function without the compiler", _share(len(of["eager"]), len(ran))),
        (
            "compute other values than without the compiler",
            str(sum(not e.get("equal") for e in ran)),
        ),
    ]
    table = "\n".join(f"| {name} | {count} |" for name, count in rows)
    other = ", ".join(each["model"] for each in ran if not each.get("equal"))
    said = f"\nOther values with Dynamo's graphs than without: {other}. " if other else ""
    said += (
        f"{_AIMV2}\n"
        if other == "Aimv2Model"
        else "The reason was not investigated.\n"
        if other
        else ""
    )
    return f"{title}\n\n| | |\n| --- | ---: |\n{table}\n{said}"


_AIMV2: Final = (
    "Neither Dynamo nor chance is the cause: the class itself computes something else without the "
    "compiler. Its text tower is meant to be causal. If nothing is padded, `create_causal_mask` "
    "makes no mask and expects the attention to be causal; but `Aimv2Attention.is_causal` "
    "is False, and each token attends to all others. While Dynamo traces, a mask is always made. "
    "With one padded token in another row, or with `is_causal = True` in those layers, the plain "
    "class computes exactly the values of the compiled one."
)


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if whole else "0"


def _generating(results: Sequence[Plain]) -> str:
    ran = [each for each in results if each.get("generate", {}).get("graphs") is not None]
    ran = [each for each in ran if "cache" in each["generate"]]
    if not ran:
        return ""
    lines = []
    for cache in ("static", "its own"):
        of = [each["generate"] for each in ran if each["generate"]["cache"] == cache]
        if of:
            graphs = Counter(each["graphs"] for each in of)
            often = ", ".join(f"{count} make {n}" for n, count in graphs.most_common(4))
            broken = sum(bool(each.get("breaks")) for each in of)
            lines.append(
                f"| {cache} | {len(of)} | {broken} | {often} |",
            )
    table = "\n".join(lines)
    return (
        "## `generate`\n\nFour tokens after the prompt, greedy, with the forward compiled: with a "
        "static cache if the class has one, else with its default cache. The "
        "prompt and a token have different sizes, so a model without a break makes two graphs.\n\n"
        f"| cache | classes | break | graphs |\n| --- | ---: | ---: | --- |\n{table}\n"
    )


def _held() -> str:
    """What an independent count says."""
    if not INDEPENDENT.exists():
        return ""
    drawn = json.loads(INDEPENDENT.read_text("utf-8"))
    classes = drawn["classes"]
    return (
        f"## Compared with another count\n\n{len(classes)} classes, chosen at random, were counted "
        "without the plugin: graphs by a backend that counts its calls, graph breaks and "
        f"recompiles by Dynamo's logs. **{sum(classes.values())} of {len(classes)} agree** in "
        f"all three. `python -m benchmarks.survey.independent --of {drawn['of']} "
        f"--seed {drawn['seed']}` repeats the choice: {', '.join(classes)}.\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _short_file(file: str) -> str:
    return file.removeprefix("transformers/").removeprefix("models/")


def _places(results: Sequence[Plain]) -> str:
    """The places by how many classes break there."""
    hit: defaultdict[tuple[str, str, str], dict[str, Plain]] = defaultdict(dict)
    for each in results:
        for item in each.get("breaks", ()):
            hit[item["file"], item["function"], item.get("code") or ""][each["model"]] = item
    if not hit:
        return ""
    ordered = sorted(hit.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    kinds: Counter[tuple[str, str]] = Counter()
    for where in hit.values():
        item = next(iter(where.values()))
        kinds[item.get("id") or "", item["reason"]] += 1
    reasons = "\n".join(
        f"| {count} | {identity} | {_cell(reason)} |"
        for (identity, reason), count in kinds.most_common()
    )
    rows = []
    for (file, function, code), where in ordered:
        item = next(iter(where.values()))
        fix = short(_as_break(item)) or ""
        rows.append(
            f"| {len(where)} | `{_short_file(file)}` `{function}` {_code(code)} "
            f"| {item.get('id') or ''} {_cell(item['reason'])} | {_cell(fix)} |"
        )
    return (
        "## Where they break\n\n"
        f"{len(hit)} places. By reason:\n\n"
        f"| places | id | reason |\n| ---: | --- | --- |\n{reasons}\n\n"
        "By the number of classes that break there, with the advice that a red test shows. "
        f"{_after(results)}\n\n"
        "| classes | where | reason | fix |\n| ---: | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


_RESUMED: Final = "recordable_keys = {"


def _after(results: Sequence[Plain]) -> str:
    """Describe the place that only breaks after another one has."""
    here = [
        {item.get("code") for item in each["breaks"]}
        for each in results
        if any(item.get("code") == _RESUMED for item in each.get("breaks", ()))
    ]
    alone = sum(codes == {_RESUMED} for codes in here)
    return (
        f"`{_RESUMED}` is in the wrapper of `forward` that collects outputs: of the {len(here)} "
        f"classes that break there {alone} break nowhere else. It follows from a break inside, "
        "and is gone when that one is."
    )


def _as_break(item: Plain) -> Break:
    where = Frame(item["file"], item["function"], item.get("line") or 0, item.get("code") or "")
    return Break("dynamo", item["reason"], where, item.get("id"))


_FAMILIES: Final = (
    ("sizes of images in a tensor (`grid_thw`)", ("vision_utils.py",)),
    ("sizes of images, split one by one", ("modeling_pixtral.py", "spatial_shapes", "lfm2_vl")),
    ("experts that are chosen", ("expert_hit", "expert_size")),
    (
        "images or sounds that are left out by a mask",
        ("real_images_inds", "mask[", "[mask]", "_mask]"),
    ),
    ("LSTM layers", ("self.lstm(",)),
    ("padding that is computed in tensors", ("_pad1d",)),
    ("attention of some tokens to all others", ("is_global_attn",)),
    ("the check of placeholders alone", ("torch_compilable_check",)),
    ("lines of a log", ("logger.",)),
)
"""Families by what is in the file, the function or the code of a place: the first that fits."""


def _family(result: Plain) -> str:
    texts = [f"{one['file']} {one['function']} {one.get('code')}" for one in result["breaks"]]
    for family, signs in _FAMILIES:
        if any(sign in text for sign in signs for text in texts):
            return family
    return "others"


def _families(results: Sequence[Plain], repairs: Sequence[Plain]) -> str:
    """Graphs and places before and after, for each family of classes that break."""
    by = {each["model"]: each for each in repairs}
    of: defaultdict[str, list[Plain]] = defaultdict(list)
    for each in results:
        if each["part"] == "base" and each.get("breaks"):
            of[_family(each)].append(by.get(each["model"]) or {"model": each["model"]})
    rows = []
    names = [family for family, _ in _FAMILIES] + ["others"]
    for family in [*(one for one in names if one in of)]:
        ran = [each for each in of[family] if each.get("status") == "ran"]
        sums = [
            sum(each[key][side] for each in ran) for key in ("breaks", "graphs") for side in (0, 1)
        ]
        rows.append((family, len(of[family]), len(ran), sum(_whole(each) for each in ran), *sums))
    if not rows:
        return ""
    rows.append(("**all**", *(sum(row[column] for row in rows) for column in range(1, 8))))
    lines = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
    untried = sorted(
        each["model"] for group in of.values() for each in group if "status" not in each
    )
    said = f"\nNot tried: {', '.join(untried)}.\n" if untried else ""
    return (
        "By what breaks in them:\n\n"
        "| what breaks | classes | tried | without a break | places | after | graphs | after |\n"
        f"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n{lines}\n{said}"
    )


def _whole(repair: Plain) -> bool:
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
    return repair["status"] == "ran" and bool(repair["breaks"][0]) and _whole(repair)


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


def _kinds(repairs: Sequence[Plain]) -> Counter[str]:
    return Counter(kind(each) for each in repairs if _whole(each))


def _by_kind(repairs: Sequence[Plain], held: Sequence[Plain]) -> str:
    kinds = {each["model"]: kind(each) for each in repairs if repaired_whole(each)}
    seen = [each for each in _unbroken(held) if each["model"] in kinds]
    counts = Counter(kinds.values())
    of = Counter(kinds[name] for name in {each["model"] for each in seen})
    more = {each["model"] for each in seen if _often(each, "unseen") > _often(each)}
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


_DRAW: Final = (12, 27)


def _drawn(repairs: Sequence[Plain], again: Sequence[Plain]) -> str:
    """Describe the classes that were drawn and run again, with inputs that vary."""
    if not again:
        return ""
    ran = {each["model"] for each in again}
    names = drawn(repairs, *_DRAW)
    missing = [name for name in names if name not in ran]
    besides = sorted(ran - set(names))
    more = sorted({each["model"] for each in again if _often(each, "unseen") > _often(each)})
    ordered = sorted(again, key=lambda each: (each["model"], each.get("assume", False)))
    rows = [_row(each, "`--assume`" if each.get("assume") else "") for each in ordered]
    plain = [each for each in again if not each.get("assume")]
    holds = [each for each in plain if _whole(each)]
    before = {each["model"] for each in repairs if repaired_whole(each)}
    lost = [each["model"] for each in plain if each["model"] in before and not _whole(each)]
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
    seen = [each for each in _unbroken(held) if each["model"] in kinds]
    if not seen:
        return ""
    names = {each["model"] for each in seen}
    of, counts = Counter(kinds[name] for name in names), Counter(kinds.values())
    sums = [sum(each["unseen"].get(key, 0) for each in seen) for key in ("equal", "raise")]
    other = sorted({each["model"] for each in seen if each["unseen"].get("differs")})
    differ = sum(len(each["unseen"].get("differs", ())) for each in seen)
    more = {each["model"]: _grew(each) for each in seen if _often(each, "unseen") > _often(each)}
    left = sorted(set(kinds) - {each["model"] for each in held})
    unfixed = {name: words for name, words in more.items() if kinds[name] != "constants"}
    return (
        f"**{len(names)} of these {len(kinds)} classes were held to inputs that the search never "
        f"used**: {sums[0]} outputs are those of the plain class, for {sums[1]} inputs both raise, "
        f"{differ} differ{f' ({_joined(other)})' if other else ''}. Of the classes without "
        f"constants {len(names) - of['constants']} of {len(kinds) - counts['constants']} were held"
        + (
            f"; compiled again more often than before the repair: {_named(unfixed)}. "
            if unfixed
            else ". "
        )
        + f"{_after_the_second([each for each in seen if kinds[each['model']] != 'constants'])}"
        + "The three tables below have each class."
        + (f" Not held, for want of time: {_joined(left)}.\n" if left else "\n")
    )


def _after_the_second(held: Sequence[Plain]) -> str:
    """Say how many classes are compiled after the second input of a kind, and which often."""
    most = {each["model"]: max((each["unseen"].get("again") or {0: 0}).values()) for each in held}
    often = sorted(name for name, count in most.items() if count > 2)
    return (
        f"Of these {len(most)}, {list(most.values()).count(0)} compile nothing after the second "
        f"input of a kind, {len(most) - len(often) - list(most.values()).count(0)} once or twice "
        f"more, and {len(often)} for many of them, as the plain class does: {_joined(often)}. "
    )


def _latest(
    repairs: Sequence[Plain], again: Sequence[Plain], unsought: Sequence[Plain]
) -> list[Plain]:
    """Return what each class gave for unseen inputs, of its last repair alone."""
    searched = [each for each in repairs if each.get("unpatched")]
    names = {each["model"] for each in searched}
    return [*(each for each in (*again, *unsought) if each["model"] not in names), *searched]


def _searched(repairs: Sequence[Plain]) -> str:
    """Describe the classes that were searched again, and then held to unseen inputs."""
    ordered = [each for each in repairs if each.get("unpatched") and _whole(each)]
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
        + (f"{_joined(assumed)} with `--assume`, the others " if assumed else "")
        + "without it, "
        "with at most 16 runs for each, and held to the same kinds of inputs with a recompile "
        f"limit of 4. A search took {seconds[0]} to {seconds[-1]} s, beside other work on two "
        f"cores. **{len(never)} of them compile nothing after the second input of a kind, "
        f"{len(one)} with "
        "one graph for all inputs.**" + _table(rows, ordered)
    )


def _model(each: Plain) -> str:
    return str(each["model"])


def _unbroken(held: Sequence[Plain]) -> list[Plain]:
    """Return the results for unseen inputs of repairs that leave no break."""
    return [each for each in held if each.get("unseen") and not each["breaks"][1]]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _named(more: dict[str, str]) -> str:
    return _joined(f"{name} ({words})" for name, words in sorted(more.items()))


def _grew(each: Plain) -> str:
    """Return the kinds of inputs for which more are compiled again than before the repair."""
    before, after = (each[side].get("again") or {} for side in ("unpatched", "unseen"))
    return _joined(
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
    more = [each["model"] for each in ordered if _often(each, "unseen") > _often(each)]
    fewer = [each["model"] for each in ordered if _often(each, "unseen") < _often(each)]
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


def _often(repair: Plain, side: str = "unpatched") -> int:
    """Return for how many inputs after the second of a kind a graph was compiled."""
    return sum((repair.get(side, {}).get("again") or {}).values())


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


def _repaired(
    results: Sequence[Plain],
    repairs: Sequence[Plain],
    again: Sequence[Plain],
    unsought: Sequence[Plain],
) -> str:
    ran = [each for each in repairs if each["status"] == "ran"]
    if not ran:
        return ""
    broken = [each for each in ran if each["breaks"][0]]
    whole = [each for each in broken if _whole(each)]
    graphs = [sum(each["graphs"][side] for each in broken) for side in (0, 1)]
    classes = sum(bool(each.get("breaks")) for each in results if each["part"] == "base")
    rows = "\n".join(
        f"| {each['model']} | {each['breaks'][0]} | {each['breaks'][1]} | {each['graphs'][0]} "
        f"| {each['graphs'][1]} | {'; '.join(dict.fromkeys(each.get('kept', ())))} |"
        for each in sorted(broken, key=lambda each: (each["breaks"][1], each["model"]))
    )
    left = [
        f"| {each['model']} | {_cell(item['reason'])} | `{_short_file(item['where'])}` "
        f"{_code(item.get('code', ''))} | {len(item.get('tried', ()))} |"
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
        _by_kind(broken, _latest(repairs, again, unsought)),
        _held_of(repairs, _latest(repairs, again, unsought)),
        _searched(repairs),
        _drawn(repairs, again),
        _unsought(repairs, unsought),
        _families(results, repairs),
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
    return "\n".join([*(part for part in parts if part), _paper(ran)])


_PAPER: Final = (
    ("t5-small, t5-base, t5-3b, flan-t5-large", "3 to 0", "T5ForConditionalGeneration"),
    ("whisper, whisper-small, whisper-base", "3 to 0", "WhisperForConditionalGeneration"),
    ("bart, bart-base, rebel-large", "3 to 0", "BartForConditionalGeneration"),
    ("biogpt", "2 to 0", "BioGptForCausalLM"),
    ("blenderbot-400M-distill", "3 to 0", "BlenderbotForConditionalGeneration"),
    ("opus-mt-fr-en", "3 to 0", "MarianMTModel"),
    ("PegasusForCausalLM", "2 to 0", "PegasusForCausalLM"),
    ("layoutlmv3-base", "2 to 0", "LayoutLMv3Model"),
    ("Phi-4-mini-instruct (LongRoPE)", "5 to 0", "Phi3ForCausalLM"),
    ("grounding-dino, grounding-dino-base", "16 to 7", "GroundingDinoModel"),
    ("longformer-base-4096", "5 to 3", "LongformerModel"),
    ("clap-htsat-fused", "2 to 2", "ClapModel"),
)
"""GraphMend's rows that need no download: the models, its breaks, and the class behind them."""


def _paper(ran: Sequence[Plain]) -> str:
    """Compare with GraphMend's figures."""
    by = {each["model"]: each for each in ran}
    rows = []
    for models, theirs, name in _PAPER:
        has = by.get(name)
        ours = "not run" if has is None else _moved(has)
        rows.append(f"| {models} | {theirs} | {name} | {ours} |")
    return (
        "## Compared with GraphMend\n\n"
        "[GraphMend](https://arxiv.org/abs/2509.16248) rewrites source before it runs. It found "
        "breaks in 13.8% of 195 models of Hugging Face. The first version of the paper lists "
        "eight of them, six fixed completely and one from five breaks to two, in a table that we "
        "could not read; a later version lists all 27 that broke, with 107 of 147 breaks and all "
        "breaks of 21 models removed. Its artifact has these 27 rows. Below are the rows "
        "that need no download, with its counts for torch 2.12.1 and transformers 4.52.4, "
        "where breaks are graphs beyond the first. Our counts are for the releases above, which "
        "have fewer breaks: transformers has since fixed many of those that GraphMend fixes. The "
        "six rows of code that is not in transformers (chronos-bolt, MoLFormer, Florence-2, "
        "Qwen-Audio-Chat, moe-minicpm, stella) were not run.\n\n"
        "| models | GraphMend: breaks | class | ours: graphs beyond the first |\n"
        "| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _moved(has: Plain) -> str:
    before, after = (max(0, count - 1) for count in has["graphs"])
    left = has["breaks"][1]
    places = "place" if left == 1 else "places"
    return f"{before} to {after}" + (f", {left} {places} left" if left else "")


def _breaking(results: Sequence[Plain]) -> str:
    broken = [each for each in results if each.get("breaks") or each.get("recompiles")]
    if not broken:
        return ""
    rows = "\n".join(
        f"| {each['model']} | {each.get('graphs', 0)} | {len(each.get('breaks', ()))} "
        f"| {sum(item['count'] for item in each.get('breaks', ()))} "
        f"| {len(each.get('recompiles', ()))} | {each.get('ops', 0)} |"
        for each in sorted(broken, key=lambda each: (-each.get("graphs", 0), each["model"]))
    )
    return (
        "## Classes with a break or a recompile\n\n"
        "| class | graphs | graph breaks | times broken | recompiles | operations |\n"
        f"| --- | ---: | ---: | ---: | ---: | ---: |\n{rows}\n"
    )


def _stopped(results: Sequence[Plain]) -> str:
    found = [each for each in results if each["status"] != "ran"]
    if not found:
        return ""
    rows = "\n".join(
        f"- {each['model']}: {each['status']}: {_reason(each['why'])}" for each in found
    )
    return (
        "## Not built\n\nThe classes that the survey could not run, with the message of each class "
        "about the configuration or the inputs that were generated for it. "
        "This says nothing about the class.\n\n"
        f"{rows}\n"
    )


def _reason(why: str) -> str:
    return "`" + why.replace("`", "'")[:200].strip() + "`"


def _of(files: Sequence[str], *words: str) -> list[Plain]:
    """Return the lines of those files whose names begin with one of some words."""
    return [
        each for file in files if Path(file).name.startswith(words) for each in read(Path(file))
    ]


def main(files: Sequence[str]) -> None:
    if again := _of(files, "drawn"):
        again.sort(key=lambda each: (each["model"], each.get("assume", False)))
        DRAWN.write_text(written(again), "utf-8")
    if unsought := _of(files, "recorded"):
        by = {each["model"]: each for each in [*read(RECORDED), *unsought]}
        RECORDED.write_text(written([by[name] for name in sorted(by)]), "utf-8")
    besides = ("drawn", "recorded")
    lines = _of([file for file in files if not Path(file).name.startswith(besides)], "")
    repairs = [each for each in lines if "part" not in each]
    results = merged([*read(RESULTS), *(each for each in lines if "part" in each)])
    if repairs:
        by = {each["model"]: each for each in [*read(REPAIRS), *repairs]}
        REPAIRS.write_text(written([by[name] for name in sorted(by)]), "utf-8")
    if len(lines) > len(repairs):
        from benchmarks.survey.architectures import architectures

        listed = {part: len(architectures(part)) for part in ("base", "head")}
        LISTED.write_text(json.dumps(listed) + "\n", "utf-8")
        RESULTS.write_text(written(results), "utf-8")
    listed = json.loads(LISTED.read_text("utf-8"))
    PAGE.write_text(page(*map(read, (RESULTS, REPAIRS, DRAWN)), listed, read(RECORDED)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

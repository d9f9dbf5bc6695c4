"""The parts of the page that say what was counted: graphs, places, families of reasons."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from benchmarks.survey.data import INDEPENDENT, Plain, as_code, cell, share, short_file
from benchmarks.survey.kinds import is_whole
from pytest_graphbreak.advice.match import short
from pytest_graphbreak.model.record import Break, Frame


def counts_part(results: Sequence[Plain], listed: int, part: str) -> str:
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
        ("one graph, no break", share(len(whole), len(ran))),
        ("**break at one place or more**", f"**{share(len(of['breaks']), len(ran))}**"),
        ("compile something again, with the same inputs", share(len(of["recompiles"]), len(ran))),
        ("run a function without the compiler", share(len(of["eager"]), len(ran))),
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


def generating_part(results: Sequence[Plain]) -> str:
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


def held_part() -> str:
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


def places_part(results: Sequence[Plain]) -> str:
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
        f"| {count} | {identity} | {cell(reason)} |"
        for (identity, reason), count in kinds.most_common()
    )
    rows = []
    for (file, function, code), where in ordered:
        item = next(iter(where.values()))
        fix = short(_as_break(item)) or ""
        rows.append(
            f"| {len(where)} | `{short_file(file)}` `{function}` {as_code(code)} "
            f"| {item.get('id') or ''} {cell(item['reason'])} | {cell(fix)} |"
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


def by_family(results: Sequence[Plain], repairs: Sequence[Plain]) -> str:
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
        rows.append((family, len(of[family]), len(ran), sum(is_whole(each) for each in ran), *sums))
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


def by_paper(ran: Sequence[Plain]) -> str:
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


def breaking_part(results: Sequence[Plain]) -> str:
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


def stopped_part(results: Sequence[Plain]) -> str:
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

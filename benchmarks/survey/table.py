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
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.survey.counts import (
    breaking_part,
    counts_part,
    generating_part,
    held_part,
    places_part,
    stopped_part,
)
from benchmarks.survey.data import (
    DRAWN,
    LISTED,
    RECORDED,
    REPAIRS,
    RESULTS,
    ROOT,
    Plain,
    merged,
    read,
    share,
    written,
)
from benchmarks.survey.kinds import is_whole, kind, kinds_of, often, repaired_whole, unbroken_of
from benchmarks.survey.repaired import latest, repaired_part

PAGE: Final = ROOT / "docs" / "explanation" / "survey.md"


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
        _INTRODUCTION.format(result=_result(base, repairs, latest(repairs, again, unsought))),
        counts_part(base, listed["base"], "base"),
        counts_part([each for each in results if each["part"] == "head"], listed["head"], "head"),
        generating_part(results),
        held_part(),
        places_part(results),
        repaired_part(results, repairs, again, unsought),
        breaking_part(results),
        stopped_part(results),
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
    constants = kinds_of(fixed)["constants"]
    others = sum(map(is_whole, fixed)) - constants
    plain = {each["model"] for each in fixed if repaired_whole(each) and kind(each) != "constants"}
    seen = [each for each in unbroken_of(held) if each["model"] in plain]
    more = len({each["model"] for each in seen if often(each, "unseen") > often(each)})
    again = f"\n({more} of these are compiled again for more inputs than before)" if more else ""
    return (
        f"**{share(whole, len(ran))} of {len(ran)} architectures compile into one graph without a "
        f"break;\n{share(sum(bool(each.get('breaks')) for each in ran), len(ran))} break at one "
        f"place or more. `graphbreak fix` removed every break\nin {others} of {len(fixed)} of "
        f"those with patches that fix no number{again}, and in\n{constants} more with numbers that "
        "are constant for a deployment, which it now keeps only with `--assume`.**"
    )


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

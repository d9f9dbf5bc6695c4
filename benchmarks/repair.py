"""How many graphs `graphbreak fix` removes, and how many breaks `graphbreak repro` reproduces.

``python -m benchmarks.repair [--repro] [--training] [NAME...]`` prints a line for each program of
``cases.broken``, or of ``cases.training``, and then the share of the graphs beyond one for each
function that verified patches remove. With ``--repro`` also the share of breaks that have a
verified script.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cases.broken import BROKEN
from cases.training import SCRIPTS
from pytest_graphbreak.repair.outcome import SearchResult
from pytest_graphbreak.repair.repro import Repro
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, bench


def main() -> None:
    args = _arguments()
    programs = SCRIPTS if args.training else {name: (1, text) for name, text in BROKEN.items()}
    removed = extra = shown = wanted = 0
    for name in args.names or programs:
        functions, source = programs[name]
        began = time.time()
        with tempfile.TemporaryDirectory() as folder, bench(300) as desk:
            target = Target(Path(folder) / f"{re.sub(r'[^a-zA-Z0-9]', '_', name)}.py")
            target.path.write_text(source)
            if args.repro:
                verified = _reproduced(target, desk)
                shown, wanted = shown + sum(verified), wanted + len(verified)
            out = Search(target, desk, most=60).run()
        if out.before > functions:  # where all had left the compiler, no graph can be removed
            removed, extra = removed + out.before - out.after, extra + out.before - functions
        print(f"{name:<14} {time.time() - began:3.0f} s  ", *_lines(out), sep="", flush=True)
    if args.repro:
        print(f"breaks reproduced: {shown} of {wanted} ({shown / max(wanted, 1):.0%})")
    print(f"graphs removed: {removed} of {extra} ({removed / max(extra, 1):.0%})")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--repro", action="store_true")
    parser.add_argument("--training", action="store_true")
    return parser.parse_args()


def _reproduced(target: Target, desk: Bench) -> list[bool]:
    """Return whether each break has a verified script."""
    work = Repro(target, desk, target.path.parent / "repros", as_test=False)
    scripts = list(work.run(lambda *_: None))
    for script in scripts:
        if not script.verified:
            print(f"      not reproduced: {script.item.reason}: {script.why}")
    return [script.verified for script in scripts]


def _lines(out: SearchResult) -> Iterator[str]:
    """Yield what became of a program, and what was tried for what is left."""
    if out.first.error:
        yield f"does not run: {out.first.error}"
        return
    eager = f"eager {len(out.first.record.eager)} -> {len(out.last.record.eager)}"
    kept = "; ".join(patch.title for patch in out.patches) or "nothing kept"
    yield f"graphs {out.before} -> {out.after}   {eager}   {kept}"
    for problem in out.problems:
        for attempt in () if problem.fixed else problem.tried:
            title = attempt.patch.title[:50]
            yield f"\n      {problem.title[:40]}: {title}: {attempt.why[:120]}"


if __name__ == "__main__":
    main()

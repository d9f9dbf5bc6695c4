"""How many breaks `graphbreak repro` reproduces, and how many graphs `graphbreak fix` removes.

``python -m benchmarks.repair [NAME...]`` prints a line for each program of
``cases.broken``, and the two shares: breaks with a verified script, and of
the graphs that a program makes beyond its first, those that verified patches
remove.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from cases.broken import BROKEN
from pytest_graphbreak.repair.repro import Repro
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import bench


def main() -> None:
    names = sys.argv[1:] or list(BROKEN)
    shown = wanted = removed = extra = 0
    for name in names:
        began = time.time()
        with tempfile.TemporaryDirectory() as directory, bench(300) as desk:
            target = Target(Path(directory) / f"{name}.py")
            target.path.write_text(BROKEN[name])
            work = Repro(target, desk, Path(directory) / "repros", as_test=False)
            scripts = list(work.run(lambda *_: None))
            search = Search(
                target,
                desk,
                most=60,
                keep_side_effects=False,
                header="",
                progress=lambda *_: None,
            )
            out = search.run()
        good = sum(script.verified for script in scripts)
        shown, wanted = shown + good, wanted + len(scripts)
        if out.before > 1:  # where all had left the compiler, no graph is there to remove
            removed, extra = removed + out.before - out.after, extra + out.before - 1
        eager = f"   eager {len(out.first.record.eager)} -> {len(out.last.record.eager)}"
        kept = "; ".join(patch.title for patch in out.patches) or "nothing kept"
        print(
            f"{name:<14} breaks {good}/{len(scripts)}   graphs {out.before} -> {out.after}{eager}"
            f"   {desk.runs} runs, {time.time() - began:.0f} s   {kept}",
            flush=True,
        )
        for problem in search.outcome.problems:
            if not problem.fixed:
                for one in problem.tried:
                    print(f"      {problem.title[:40]}: {one.patch.title[:50]}: {one.why[:120]}")
        for script in scripts:
            if not script.verified:
                print(f"      not reproduced: {script.item.reason}: {script.why}")
        if out.first.error:
            print(f"      does not run: {out.first.error}")
    print(f"breaks reproduced: {shown} of {wanted} ({shown / max(wanted, 1):.0%})")
    print(f"graphs removed: {removed} of {extra} ({removed / max(extra, 1):.0%})")


if __name__ == "__main__":
    main()

"""How many device graphs of the cases have the right cause and the right place, as a table.

    python cases/xla_coverage.py

Each case runs in a process of its own. What is right was written by hand beside
the cases (``xla.py``). What is not right is listed below the table.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("PJRT_DEVICE", "CPU")
sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> None:
    from cases.forked import in_child
    from cases.xla import CASES, Why
    from cases.xla_runs import observed

    graphs: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    places: Counter[str] = Counter()
    wrong = []
    for name, case in CASES.items():
        seen = in_child(observed, name)["graph_list"]
        nothing = Why("none", "")
        for number in range(max(len(seen), len(case.why))):
            why = case.why[number] if number < len(case.why) else nothing
            cause, code = "none", ""
            if number < len(seen):
                cause, code = seen[number]["cause"], seen[number]["where"].get("code", "")
            graphs[why.cause] += 1
            causes[why.cause] += cause == why.cause
            places[why.cause] += code == why.code
            if (cause, code) != (why.cause, why.code):
                wrong.append(
                    f"{name} #{number}: {cause} at {code!r}, not {why.cause} at {why.code!r}"
                )
    print(f"{'cause':<10} {'graphs':>6} {'cause right':>12} {'place right':>12}")
    for cause in [*graphs, "all"]:
        number = graphs[cause] if cause != "all" else graphs.total()
        right = causes[cause] if cause != "all" else causes.total()
        placed = places[cause] if cause != "all" else places.total()
        print(f"{cause:<10} {number:>6} {right / number:>12.1%} {placed / number:>12.1%}")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()

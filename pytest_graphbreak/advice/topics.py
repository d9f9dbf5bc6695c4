"""Words of the reports that are no reason: pages that are asked for by name only."""

from __future__ import annotations

from pytest_graphbreak.advice.family import Family, Sign

BUCKET = Family(
    "bucket",
    "a part of a graph that DDP cut where its gradient buckets end",
    "a larger bucket_cap_mb makes fewer; torch._dynamo.config.optimize_ddp = False leaves it whole",
    (Sign(reason=r"^bucket\b"),),
)
"""Said of dynamo graphs, as the families of ``device`` are of xla graphs."""

TOPICS: tuple[Family, ...] = (
    Family("break", "a graph break", "mend the first break of a test first", ()),
    Family(
        "recompile",
        "a frame compiled again",
        "decide how many variants are meant: one, a few, or many",
        (),
    ),
    Family(
        "eager",
        "a function that was to be compiled, and that Python runs",
        "take what breaks out of the loop, the with or the try that it stands in",
        (),
    ),
    Family("entry", "the graph of a function that you compiled", "compile what calls it", ()),
    Family(
        "callee",
        "a function compiled for itself, since its caller broke",
        "mend the break in the caller",
        (),
    ),
    BUCKET,
    Family("fx", "an FX graph that became one device graph", "nothing: this is the good case", ()),
)

"""Shows the gate at work on torch_xla's own CPU device: ``python -m demo``.

First the committed baselines of real models, which must hold. Then the same
with one graph break planted in a copy of a model, which must be caught. Exits
with 0 if both came out so, and with 1 if not.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

from demo.show import GREEN, green, red


def main() -> int:
    scratch = Path(tempfile.mkdtemp(prefix="graph-budget-demo-"))
    held = green(GREEN, scratch)
    caught = red(scratch)
    print(f"\n== The demo {'came out as it must' if held and caught else 'FAILED'} ==")
    print(f"\nThe copy with the break is {scratch / 'planted'}.")
    print("Take the break out, or paste the accept line above, and its test is green.")
    print(f"Then record the tests of your own:\n\n  {python()} -m pytest --graph-budget-record")
    return 0 if held and caught else 1


def python() -> str:
    """This Python, which has the plugin, as it can be typed where the demo was started."""
    path = Path(sys.executable)
    near = path.is_relative_to(Path.cwd())
    return shlex.quote(str(path.relative_to(Path.cwd()) if near else path))


if __name__ == "__main__":
    sys.exit(main())

"""What ``doctor`` tries the tt layer on."""

from __future__ import annotations

import os
from collections.abc import Callable

from pytest_graphbreak.layers.tt.files import FILE, LEVEL
from pytest_graphbreak.layers.tt.observer import turn_on
from pytest_graphbreak.layers.xla.observer import XlaProbe


class TTProbe(XlaProbe):
    """The function of xla on the TT device, with its plugin's log on until the process ends."""

    backend = "tt"

    def prepare(self) -> Callable[[], object]:
        os.environ["PJRT_DEVICE"] = "TT"
        turn_on()
        return super().prepare()

    def internals(self) -> list[str]:
        return [f"headers in {os.environ[FILE]} at {LEVEL}={os.environ[LEVEL]}"]

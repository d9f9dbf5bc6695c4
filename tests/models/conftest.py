"""Nothing here goes to the network: every model is built from its configuration."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Open the device before any test: autograd counts the devices at the first backward."""
    here = any(item.path.parent == Path(__file__).parent for item in session.items)
    forked = session.config.getoption("forked", default=False)
    dry = session.config.option.collectonly
    if here and importlib.util.find_spec("torch_xla") and not (forked or dry):
        import torch_xla

        torch_xla.device()

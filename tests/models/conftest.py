"""Nothing here goes to the network: every model is built from its configuration."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

"""What is broken in torch or Python themselves, with or without the plugin."""

from __future__ import annotations

import sys

import torch

THREADS_CRASH = sys.version_info[:2] == (3, 12) and torch.__version__.startswith("2.11.")
"""Python 3.12.1 with torch 2.11: a compilation in a thread, then one in the main thread, crash."""

"""Numbers with their nouns, as all texts write them."""

from __future__ import annotations


def plural(count: int, word: str) -> str:
    """``1 test``, ``1,000 tests``."""
    return f"{count:,} {noun(count, word)}"


def noun(count: int, word: str) -> str:
    """``test`` of one, ``tests`` of any other number."""
    return word if count == 1 else f"{word}s"

"""Numbers with their nouns and units, in the format of all texts."""

from __future__ import annotations


def plural(count: int, word: str) -> str:
    """Return a number with its noun: ``1 test``, ``1,000 tests``."""
    return f"{count:,} {noun(count, word)}"


def noun(count: int, word: str) -> str:
    """Return ``test`` for one and ``tests`` for any other number."""
    return word if count == 1 else f"{word}s"


def size(count: int) -> str:
    """Return a number of bytes for people: ``1 byte``, ``216 bytes``, ``1.1 GB``."""
    if count < 1000:
        return plural(count, "byte")
    number = count / 1000
    for unit in ("kB", "MB"):
        if round(number, 1) < 1000:
            return f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"

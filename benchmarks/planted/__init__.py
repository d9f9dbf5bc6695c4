"""Edits planted in programs: which of them the gate catches, and whether it names their line."""

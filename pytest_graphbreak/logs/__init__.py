"""Reads logs: turns what a run printed into the same ``Record`` that a live run makes.

``read`` analyses one log. Everything here streams: a log of any size is read once, line by line,
and the memory used is bounded. Nothing here imports torch or pytest, and nothing judges: a log has
no budget.
"""

"""Reading logs: from what a run printed to the same ``Record`` that a live run makes.

``read`` analyses one log. Everything here streams: a log of any size is read in
blocks, once, and what is kept of it is bounded. Nothing here imports torch or
pytest, and nothing judges: a log has no budget.
"""

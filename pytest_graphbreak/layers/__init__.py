"""The layers, a folder each, behind the ``Observer`` protocol of ``base``."""

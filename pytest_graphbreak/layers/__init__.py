"""The layers, one module each, behind the ``Observer`` protocol of ``base``."""

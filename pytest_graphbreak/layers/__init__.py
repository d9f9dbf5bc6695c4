"""The layers, a folder or a module each, behind the ``Observer`` protocol of ``base``."""

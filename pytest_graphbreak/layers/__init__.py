"""One module a layer, behind the ``Observer`` protocol of ``base``."""

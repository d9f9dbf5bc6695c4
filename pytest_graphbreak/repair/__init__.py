"""From a break to a patch that is proved, and to a script that shows it alone.

``target`` says what is run, ``trial`` runs it in a fresh process (``child`` is
what runs there), ``remedies`` propose patches, ``search`` tries them and keeps
what is proved, ``build`` writes the source. Nothing here imports torch but
``child`` and what only it imports.
"""

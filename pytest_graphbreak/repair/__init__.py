"""Finds a proven patch for a graph break, and writes a script that reproduces the break alone.

``target`` describes what to run, ``trial`` runs it in a fresh process (``child`` is the code that
runs there), ``remedies`` propose patches, ``search`` tries them and keeps those that are proven,
and ``sources`` has the files with patches. Nothing here imports torch except ``child`` and the
modules that only it imports.
"""

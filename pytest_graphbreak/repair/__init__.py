"""Finds a proven patch for a graph break, and writes a script that reproduces the break alone.

In the process of the command, which imports no torch: ``target`` describes what to run, ``trial``
runs it in a process of its own. ``remedies`` propose patches of the ``sources``, ``search`` tries
them, and keeps what is a ``gain`` and gives the same results (``comparison``). ``prove`` says so of
any patch. ``repro`` takes functions out of the program and writes scripts of them (``writing``), or
of the lines at which torch_xla cuts it (``lazy``).

In the process of a trial: ``child`` runs the program for an order, which is carried out by

- ``measure``, with what the program calls (``capture``, ``calls``, ``raised``), holds (``objects``,
  ``values``) and shares with others (``surroundings``), and with drawn inputs (``drawing``,
  ``inputs``);
- ``border``, which compares what two runs gave, each value and line with its ``tolerance``;
- ``cut``, which takes functions out, or ``exporting``.
"""

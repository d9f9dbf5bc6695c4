"""Runs the same tests elsewhere: on another commit, or with other versions of packages.

Everything that is made for it (worktrees, environments, reports) is in one temporary directory,
which is removed with the command. The user's checkout and environment are read and never written.
"""

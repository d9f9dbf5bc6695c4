"""The same tests elsewhere: on another commit, or with other versions of packages.

What is made for it (worktrees, environments, reports) lies in one temporary directory, and goes
with the command. The user's checkout and environment are read and never written.
"""

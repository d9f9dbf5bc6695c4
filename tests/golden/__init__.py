"""What users see, kept as text: situations, recorded once by real runs, and every output of them.

``python -m tests.golden`` writes the outputs anew from the recorded reports, without torch;
``python -m tests.golden record`` records the reports of the compilers that are installed.
"""

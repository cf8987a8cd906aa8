"""``python -m conformance.mutate FILE [...]``: lists the changes of these files that no test notices.

A mutant is the readable panel with one constant, comparison, sign or operator changed. Tests that reach the line are
run on it, quick ones first. A survivor wants a test, or an explanation in ``explained.toml``.
"""

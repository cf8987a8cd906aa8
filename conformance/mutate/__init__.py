"""``python -m conformance.mutate FILE [...]``: which changes of these files no test notices.

A mutant is the readable panel with one constant, comparison, sign or operator changed. Tests that reach the line are
run on it, quick ones first. A survivor wants a test, or an explanation in ``explained.toml``.
"""

from __future__ import annotations

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """As ``python -m conformance.mutate``."""
    from conformance.mutate.__main__ import main

    return main(arguments)

"""Benchmarks: asv suites for both panels, with other packages in the same run.

``asv run --python=same`` measures this checkout; ``python -m benchmarks.figures`` prints the table of
docs/performance.md.
"""

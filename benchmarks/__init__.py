"""Benchmarks: asv suites for both panels, with other packages in the same run.

``asv run --python=same`` measures this checkout; ``python docs/figures.py`` prints the table of
docs/performance.md.
"""

"""Pages, docstrings, the ledger, the order of the source."""

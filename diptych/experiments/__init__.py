"""The papers' experiments, run by ``diptych reproduce NAME``."""

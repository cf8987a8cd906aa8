"""The suite: does a backend show the picture in the papers, and do two backends show the same?

``python -m conformance`` runs it on both panels; ``python -m conformance --backend my.module`` on a third.
"""

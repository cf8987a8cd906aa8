"""Learners with ``fit``, ``predict`` and ``score``, which scikit-learn's pipelines, searches and cross-validation
accept.
"""

from diptych.estimators.learners import DependencyParser, KernelSequenceLabeler, MulticlassClassifier, SequenceLabeler
from diptych.estimators.sparse import SparseClassifier, SparseClassifierPath, SparseCRF, SparseCRFPath

__all__ = [
    "DependencyParser",
    "KernelSequenceLabeler",
    "MulticlassClassifier",
    "SequenceLabeler",
    "SparseCRF",
    "SparseCRFPath",
    "SparseClassifier",
    "SparseClassifierPath",
]

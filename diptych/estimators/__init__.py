"""Learners with ``fit``, ``predict`` and ``score``. They work in scikit-learn's pipelines, searches and
cross-validation.
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

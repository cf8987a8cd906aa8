"""The estimators, over this panel's models and optimisers."""

from __future__ import annotations

import accelerated
import reference.app.estimators as reference
from accelerated.mirror import inherit_docstrings

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


class MulticlassClassifier(reference.MulticlassClassifier):
    panel = accelerated


class SequenceLabeler(reference.SequenceLabeler):
    panel = accelerated


class DependencyParser(reference.DependencyParser):
    panel = accelerated


class KernelSequenceLabeler(reference.KernelSequenceLabeler):
    panel = accelerated


class SparseCRF(reference.SparseCRF):
    panel = accelerated


class SparseCRFPath(reference.SparseCRFPath):
    panel = accelerated


class SparseClassifier(reference.SparseClassifier):
    panel = accelerated


class SparseClassifierPath(reference.SparseClassifierPath):
    panel = accelerated


inherit_docstrings(vars())

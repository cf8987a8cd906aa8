"""The estimators, over this panel's models and optimisers."""

from __future__ import annotations

import accelerated
import reference.app.estimators as reference

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
    __doc__ = reference.MulticlassClassifier.__doc__
    panel = accelerated


class SequenceLabeler(reference.SequenceLabeler):
    __doc__ = reference.SequenceLabeler.__doc__
    panel = accelerated


class DependencyParser(reference.DependencyParser):
    __doc__ = reference.DependencyParser.__doc__
    panel = accelerated


class KernelSequenceLabeler(reference.KernelSequenceLabeler):
    __doc__ = reference.KernelSequenceLabeler.__doc__
    panel = accelerated


class SparseCRF(reference.SparseCRF):
    __doc__ = reference.SparseCRF.__doc__
    panel = accelerated


class SparseCRFPath(reference.SparseCRFPath):
    __doc__ = reference.SparseCRFPath.__doc__
    panel = accelerated


class SparseClassifier(reference.SparseClassifier):
    __doc__ = reference.SparseClassifier.__doc__
    panel = accelerated


class SparseClassifierPath(reference.SparseClassifierPath):
    __doc__ = reference.SparseClassifierPath.__doc__
    panel = accelerated

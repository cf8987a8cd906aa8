"""Boxes in images."""

from reference.structures.boxes import iou

__all__ = ["iou"]

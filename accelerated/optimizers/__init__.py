"""Passes as kernels: counterparts of the boxes, over objectives that are packed problems."""

"""Models, with kernels."""

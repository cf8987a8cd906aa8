"""Both panels: names, agreement, kernels, golden runs."""

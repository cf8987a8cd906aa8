import numpy as np
from reference import prox_weighted_squared_l1

x, d, lam = np.array([2.0, 5.0]), np.array([1.0, 0.0]), 1.0
value = [2.0 / (1 + lam), 5.0]  # a coordinate without weight stays
corrected = prox_weighted_squared_l1(x, d, lam)
with np.errstate(divide="ignore", invalid="ignore"):
    printed = np.maximum(np.abs(x) / d - lam * np.sum(d**2 * (np.abs(x) / d)) / (1 + lam * np.sum(d**2)), 0) * d

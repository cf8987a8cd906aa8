import numpy as np
from reference import prox_weighted_squared_l1

d, x0, lam = np.array([2.0]), np.array([1.0]), 1.0
x = prox_weighted_squared_l1(x0, d, lam)
a, u, u0 = d**2, np.abs(x) / d, np.abs(x0) / d
value = np.sum(a * u0) / (1 + lam * np.sum(a))  # the right side
corrected = np.sum(a * u)
printed = np.sum(u)

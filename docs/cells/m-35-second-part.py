import numpy as np
from reference import prox_weighted_squared_l1

d, x0, lam = np.array([1.0, 2.0]), np.array([3.0, 0.1]), 1.0
x = prox_weighted_squared_l1(x0, d, lam)
a, u, u0 = d**2, np.abs(x) / d, np.abs(x0) / d
xi = a * (u - u0) + lam * np.sum(a * u) * a  # the multipliers, by (32)
value = -u0[1] + lam * np.sum(a * u)  # the second coordinate vanishes
corrected = xi[1] / a[1]
printed = xi[1]

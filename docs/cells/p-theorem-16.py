import numpy as np
from reference import Table
from reference.smoothings import SquaredL2

z, mu = np.array([1.0, 0.0]), 0.5
smoothed, parts = SquaredL2()(Table(z), mu)
u = parts.values
value = True  # the smoothed max is never below the max
corrected = float(smoothed) >= z.max()
printed = z @ u - mu / 2 * (u @ u) >= z.max()  # omega = ||u||^2/2

import numpy as np
from reference import L21

x, grid = np.array([0.5]), np.linspace(-2, 2, 4001)
value = grid[[np.argmin(np.abs(grid) + 0.5 * (grid - x) ** 2)]]
corrected = L21(1.0, [[0]]).prox(x)
printed = (np.abs(x) - 1.0) * x / np.abs(x)  # psi(u) = u, whose prox at 0.5 is -0.5

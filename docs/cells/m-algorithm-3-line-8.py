import numpy as np
from reference import SquaredL1

x, grid = np.array([3.0, -1.0]), np.linspace(0, 3, 601)
at = np.array([np.abs([a, -b]).sum() ** 2 + 0.5 * ((a - 3) ** 2 + (b - 1) ** 2) for a in grid for b in grid])
a, b = divmod(int(np.argmin(at)), len(grid))
value = [grid[a], -grid[b]]  # prox of ||.||_1^2
corrected = SquaredL1(2.0).prox(x)  # (2/2) ||.||_1^2
printed = SquaredL1(1.0).prox(x)  # what Algorithm 2 gives

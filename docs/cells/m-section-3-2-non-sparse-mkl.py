import numpy as np
from reference import NonSparseMKL

lam, q, x0 = 1.0, 3.0, 2.0
value = [(np.sqrt(13) - 1) / 3]  # lam/2 x^3 + (x - 2)^2/2 is least where (3/2) x^2 + x - 2 = 0
grid = np.linspace(0, 2, 20001)
assert abs(grid[np.argmin(lam / 2 * grid**q + 0.5 * (grid - x0) ** 2)] - value[0]) < 1e-3
corrected = NonSparseMKL(lam, q, [[0]]).prox([x0])
printed = [(np.sqrt(25) - 1) / 6]  # 3 x^2 + x - 2 = 0

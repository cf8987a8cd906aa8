import numpy as np
from reference.optimizers.sample_updates import expand_and_swap

Q, start = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([1.0, 0.0])  # u = 1, v = -1, lam = t = 1
b = np.array([0.0, 0.1]) + Q @ start
dual = lambda alpha: b @ alpha - 0.5 * alpha @ Q @ alpha
swaps = [start * (1 - a) + np.array([0.0, a]) for a in np.linspace(0, 1, 1001)]
value = max(map(dual, swaps)) - dual(start)
corrected = dual(expand_and_swap(Q, b, start)) - dual(start)
printed = dual(np.array([0.0, 1.0])) - dual(start)  # ||v + u||^2 = 0: the longest swap

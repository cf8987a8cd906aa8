import itertools
import numpy as np
from reference import L1, L21, Sequential

x, l1, l21 = np.array([2.0, 1.5, 1.5]), L1(1.0), L21(1.0, [[0, 1, 2]])
at = lambda v: float(l1.value(v) + l21.value(v)) + 0.5 * np.sum((v - x) ** 2)
least = min(at(np.array([a, b, b])) for a, b in itertools.product(np.linspace(0, 2, 101), repeat=2))
value = True
corrected = at(Sequential([l1, l21]).prox(x)) <= least
printed = at(Sequential([l21, l1]).prox(x)) <= least  # the print leaves the order open

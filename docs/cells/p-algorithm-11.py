import itertools
import numpy as np
from reference import Cut

theta = np.array([[1.0, 0.0], [2.0, 1.0]])  # to be minimised; the best of the scores -theta
value = theta.min()
corrected = -float(Cut(np.zeros((2, 2)), -theta[None], [[0, 1]]).best()[0])
capacity = theta[0, 1] - theta[0, 0] - theta[1, 1]  # -2: no capacity of an arc
cut = lambda y, v: (1 - y) * theta[0, 0] + v * theta[1, 1] + y * (1 - v) * theta[1, 0] + v * (1 - y) * max(capacity, 0)
y, v = min(itertools.product((0, 1), repeat=2), key=lambda each: cut(*each))
printed = cut(y, v)

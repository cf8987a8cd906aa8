import numpy as np

t, lam, u, v, loss, a = 4, 0.6, np.array([1.0, -1.0]), np.array([0.5, 2.0]), 0.3, 0.4
dual = lambda a: a * loss - np.sum((u + a * v) ** 2) / (2 * lam * t)
value = dual(a) - dual(0)
block = lambda w: a * (w @ v + loss) - a**2 * (v @ v) / (2 * lam * t)
before = -u / (lam * (t - 1))  # w^{t-1}
corrected = block((t - 1) / t * before)  # w^{t,0}
printed = block(before)

import numpy as np

t, lam, loss, w, v = 3, 0.7, 0.4, np.array([1.0, 2.0]), np.array([0.5, -1.0])
after = (t - 1) / t * w - v / (lam * t)
value = -0.5 * lam * t * after @ after + 0.5 * lam * (t - 1) * w @ w + loss  # D_t - D_{t-1}
rest = (t - 1) / t * w @ v - v @ v / (2 * lam * t) + loss
corrected = lam * (t - 1) / (2 * t) * w @ w + rest
printed = (lam * t - 2 * lam) / (2 * t) * w @ w + rest

import numpy as np

lam, loss, w = 1.0, 3.0, np.sqrt(3.0)
dual = lambda s: s * loss - 0.5 * lam * (s * w) ** 2
value = max(dual(s) for s in np.linspace(0, 2, 201))  # along the ray
corrected = dual(min(1.0, np.sqrt(loss / lam) / w))
printed = dual(min(1.0, np.sqrt(1 / lam) / w))

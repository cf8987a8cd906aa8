import numpy as np
from reference import prox_squared_l1

x, lam = np.zeros(3), 1.0
value = x  # the minimum of a norm's square plus the distance from 0
corrected = prox_squared_l1(x, lam)
u = np.sort(np.abs(x))[::-1]
held = [j for j in (1, 2, 3) if u[j - 1] > lam / (1 + j * lam) * u[:j].sum()]
printed = max(held, default=np.nan)  # rho, of an empty set

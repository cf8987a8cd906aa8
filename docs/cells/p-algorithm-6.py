import numpy as np
from reference import Table
from reference.smoothings import TopK

psi, mu = np.array([1.0, 0.0]), 10.0
value = max(u * psi[0] + mu / 2 * (1 - u**2 - (1 - u) ** 2) for u in np.linspace(0, 1, 1001))  # its definition
corrected, parts = TopK(2)(Table(psi), mu)
corrected = float(corrected)
printed = float(parts.values @ psi)

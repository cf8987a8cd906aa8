import numpy as np
from reference.identities.pillutla import operator_norm

A, x, y = np.array([[3.0, 4.0]]), np.array([0.6, 0.8]), np.array([0.1])
value = max(np.linalg.norm(A @ [np.cos(t), np.sin(t)]) for t in [*np.linspace(0, 6, 99), np.arctan2(4, 3)])
corrected = float(operator_norm(A, 2))
printed = np.linalg.norm(A @ x) / np.linalg.norm(y)

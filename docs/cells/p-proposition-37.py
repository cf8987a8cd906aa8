import numpy as np
from reference import bounds

accuracy, eta = 0.1, 1.0
s, w, steps = 1.01 * accuracy, 0.0, []  # F(w) = max(0, 1 - s w), subproblems solved exactly
K = int(np.ceil(2 / (eta * accuracy)))  # the printed inequality: (2/(eta K)) (gap) <= accuracy
for _ in range(K):
    following = min(w + eta * s, 1 / s)
    w, steps = following, [*steps, abs(following - w) / eta]
value = True
corrected = min(steps) ** 2 <= bounds.stationarity(eta, 1.0, [0.0] * K)
printed = min(steps) <= accuracy
print(f"{K} steps, the shortest is {min(steps):.3f}")

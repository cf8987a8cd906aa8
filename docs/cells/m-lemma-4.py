import numpy as np
from reference import L1, bounds

v, q = np.array([0.6, 0.8]), np.array([0.8, -0.6])  # Theta: the multiples of v; its points have no R_2 = |<q, .>|
R = [lambda x: abs(x[0]), lambda x: abs(q @ x)]
proxes = [lambda x: np.array([*L1(1.0).prox(x[:1]), x[1]]), lambda x: x - np.clip(q @ x, -1, 1) * q]
g = np.array([0.0, 1.0])  # L = <g, .>, from 0 with a step of 1
first = proxes[0](-g)
second = proxes[1](first)
after = v * (v @ second)  # the projection
bound = bounds.round_bound(0.0, g @ g, 1.0, 0.0, after @ after)  # against 0, where L + R = 0
left = R[0](after) + R[1](after)
print(f"R is {left:.2f}, its bound {bound:.2f}; R_1 went from {R[0](first):.2f} to {R[0](second):.2f}")
value = bool(left <= bound)
corrected = bool(R[0](second) <= R[0](first))  # the condition where the round is
printed = all(R[0](proxes[1](s * v)) <= R[0](s * v) + 1e-12 for s in np.linspace(-2, 2, 9))  # in Theta

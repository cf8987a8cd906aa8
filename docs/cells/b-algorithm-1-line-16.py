import numpy as np
from reference.optimizers.sample_updates import exact_update, expand_and_swap


def missing(alpha):
    """How far <slope, .> at a vertex of the simplex, or at 0, lies above that at alpha: 0 at the maximum."""
    slope = b - Q @ alpha
    return max(0.0, slope.max()) - slope @ alpha


rng = np.random.default_rng(0)
value, corrected, printed = 0.0, 0.0, 0.0
for _ in range(20):
    V, b = rng.normal(size=(4, 3)), rng.normal(size=4)
    Q, alpha = V @ V.T, np.zeros(4)
    for _ in range(100):
        alpha = expand_and_swap(Q, b, alpha)
    corrected = max(corrected, missing(exact_update(Q, b, np.zeros(4))))
    printed = max(printed, missing(alpha))  # moves repeated a hundred times

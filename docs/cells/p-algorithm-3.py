import numpy as np
from reference import Chain

unary, pairwise = np.full((3, 2), 800.0), np.zeros((2, 2))
value = 3 * (800 + np.log(2))  # eight labellings of score 2400
corrected = float(Chain(unary, pairwise).log_partition())
with np.errstate(over="ignore"):
    message = np.exp(unary[0])
    for t in (1, 2):
        message = np.exp(unary[t]) * (message @ np.exp(pairwise))
    printed = np.log(message.sum())

import itertools
import numpy as np
from reference import SequenceModel

L, rows = 2, []
for n in (1, 2, 3):
    for y in itertools.product(range(L), repeat=n):
        pairs = [*zip(("start", *y), (*y, "stop"), strict=True)]
        every = [*itertools.product(("start", *range(L)), (*range(L), "stop"))]
        rows.append([pairs.count(pair) for pair in every])
assert np.linalg.matrix_rank(rows) > L**2  # so L^2 weights cannot tell these labellings apart
value = len(every) - 1  # start is never followed by stop
corrected = SequenceModel(0, L).size
printed = L**2

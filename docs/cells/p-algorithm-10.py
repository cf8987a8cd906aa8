import numpy as np
from reference import Chain, bmmf

pairwise = np.array([[-1.0, 1.0], [1.0, 0.0]])  # outputs (0, 1) and (1, 0) tie
chain = Chain(np.zeros((2, 2)), pairwise)
value = np.sort(pairwise.ravel())[::-1]
corrected = bmmf(chain, 4).scores
decoded = tuple(int(np.argmax(each)) for each in (pairwise.max(axis=1), pairwise.max(axis=0)))
printed = [pairwise[decoded], *value[1:]]  # variable by variable: the worst output comes first

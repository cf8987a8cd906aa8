import itertools
import numpy as np

scores = np.array([[-1.0, 1.0], [1.0, 0.0]])  # of two binary variables
marginals = [scores.max(axis=1), scores.max(axis=0)]
value = scores.max()
best = max(itertools.product((0, 1), repeat=2), key=lambda y: scores[y])  # ties: one output, decoded as a whole
corrected = scores[best]
printed = scores[tuple(int(np.argmax(each)) for each in marginals)]

import numpy as np
from reference import Matching

values, matched = np.array([[3.0, 0.0], [0.0, 5.0]]), np.eye(2)
value = np.array([[8.0, 0.0], [0.0, 8.0]])  # of the best matching with each pair: there are two matchings
corrected = Matching(values).max_marginals().values
weight = np.full((4, 4), -np.inf)  # rows, then columns
weight[:2, 2:], weight[2:, :2] = 1.0 - matched, -matched.T
for k in range(4):
    weight = np.maximum(weight, weight[:, k, None] + weight[k])  # heaviest paths
printed = 8.0 + (1 - matched) * (weight[2:, :2].T + values)

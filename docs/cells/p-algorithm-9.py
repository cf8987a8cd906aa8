import numpy as np
from reference import Tree

unary, pairwise = np.array([[-800.0, -801.0]]), np.zeros((2, 2))
value = -800 + np.log1p(np.exp(-1.0))
corrected = float(Tree(unary, pairwise, [-1]).log_partition())
with np.errstate(divide="ignore"):
    printed = np.log(np.sum(np.exp(unary)))

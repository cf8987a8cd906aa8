import numpy as np
from reference import Tree

pairwise = np.array([[0.0, 0.0], [-np.inf, -np.inf]])  # of parent and child; unary scores are 0
value = np.exp(pairwise) / np.exp(pairwise).sum()
corrected = Tree(np.zeros((2, 2)), pairwise, [-1, 0]).marginals().pairwise
up, down = np.exp(pairwise) @ np.ones(2), np.exp(pairwise).T @ np.ones(2)
with np.errstate(invalid="ignore"):
    P = up[:, None] / up.sum() * (down / down.sum())
    printed = P * np.exp(pairwise + np.log(up.sum())) / (up[:, None] * down)

import itertools
import numpy as np
from reference import Tree

root, leaf, edge, K = np.array([0.0, 1.2]), np.array([2.2, 0.5]), np.array([[1.0, 0.0], [0.0, 2.0]]), 3
score = lambda y: root[y[0]] + edge[y] + leaf[y[1]]
value = sorted(itertools.product((0, 1), repeat=2), key=score, reverse=True)[:K]
corrected = Tree([root, leaf], edge, [-1, 0]).topk(K).labels
delta = {}  # (node, label above, rank) -> label; the branch of leaves has messages alone
message = np.sort(edge + leaf, axis=1)[:, ::-1]  # m_leaf^(l)(i), of label i of the root
ranked = sorted(itertools.product((0, 1), (0, 1)), key=lambda il: -root[il[0]] - message[il])[:K]
printed = [(i, delta.get(("leaf", i, l), np.nan)) for i, l in ranked]  # line 13
print("scores", [float(score(y)) for y in value])

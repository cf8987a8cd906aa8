import itertools
import numpy as np
from reference import Tree
from reference.structures.tree_k_best import top_k_max_product
from watch import watch

L = K = 4
work, listed = [], []  # candidates at the root of a star of 1, 2 and 3 leaves
for leaves in (1, 2, 3):
    star = Tree(np.zeros((leaves + 1, L)), np.zeros((L, L)), [-1] + [0] * leaves)
    (before, _), _ = watch(lambda star=star: star.topk(K), {"kept = value": top_k_max_product}, "merges")
    work.append(L * sum(len(merge.i) for merge in before.merges.values()))
    listed.append(len(list(itertools.product(range(L), *[range(K)] * leaves))))  # (66): a label, a rank for each leaf
print("candidates", work, "printed", listed)
value = 1.0  # a third leaf costs what a second did: time O(p K log K L^2)
corrected, printed = ((third - second) / (second - first) for first, second, third in (work, listed))

import numpy as np
from reference import project_simplex
from reference.identities.pillutla import sparsity

z, mu = np.array([0.0, 1.0]), 0.5
value = np.count_nonzero(project_simplex(z / mu))
corrected = int(sparsity(z, mu))
(printed,) = [k for k in (1, 2) if sum(z[:k] - z[k - 1]) < mu <= sum(z[:k] - [*z, -np.inf][k])]  # 0 comes before 1

from math import sqrt
from reference.identities.pillutla import growing_kappa_slacks

golden = (sqrt(5) - 1) / 2
A_0 = 1 - golden
root = (sqrt(1 + 4 / (golden**2 / 2)) - 1) * golden**2 / 4  # alpha^2/(1 - alpha) = golden^2/2
value = True
corrected = min(growing_kappa_slacks(1, root, A_0 * (1 - root))[:2]) >= 0
printed = growing_kappa_slacks(1, 0.0, A_0)[1] >= 0  # alpha_1 as the root at k = 0

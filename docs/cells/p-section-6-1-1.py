import numpy as np
from reference.identities.pillutla import inexactness_slack

lam, eta, eps = 0.0, 10.0, 1.0
v = np.array([np.sqrt(eps / (lam + 1 / eta))])
value = (v * eta) @ (v * eta) / (2 * eta) <= eps  # F_eta = w^2/(2 eta) has gradient v at w = eta v
corrected = inexactness_slack(v, lam=lam, eta=eta, tolerance=eps) >= 0
printed = (lam + 1 / eta) * (v @ v) <= eps * (1 + 1e-12)
print(f"the gap is {(v * eta) @ (v * eta) / (2 * eta):g}")

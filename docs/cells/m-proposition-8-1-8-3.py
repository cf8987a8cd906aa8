import numpy as np
from reference import ListModel, LogLoss, Table, lbfgs
from reference.bounds import optimum_radius

lam, model = 0.1, ListModel(lambda x: np.array([[x], [0.0]]), Table, size=1)
w = lbfgs(LogLoss(model, model.pack([1.0, 2.0], [0, 0])), lam=lam, tol=1e-12).x
radius, entropy = optimum_radius(np.log(2), lam), 0.0  # of the model: two outputs; of the labels: they are certain
print(f"||w*|| = {np.linalg.norm(w):.4f}, radius {radius:.4f}, printed {np.sqrt(2 * entropy / lam):.4f}")
value = True
corrected = bool(np.linalg.norm(w) <= radius)
printed = bool(np.linalg.norm(w) <= np.sqrt(2 * entropy / lam))

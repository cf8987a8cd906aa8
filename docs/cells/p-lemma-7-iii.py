import numpy as np
from reference import Table, project_simplex
from reference.smoothings import TopK

psi, mu, h = np.array([1.0, 0.0]), 10.0, 1e-4
smooth = lambda scores: float(TopK(2)(Table(scores), mu)[0])
value = [(smooth(psi + h * e) - smooth(psi - h * e)) / (2 * h) for e in np.eye(2)]
corrected = TopK(2)(Table(psi), mu)[1].values
printed = project_simplex(psi)

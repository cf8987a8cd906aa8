import numpy as np
from reference.optimizers.sample_updates import multiclass_update

c, grid = np.array([-1.0]), np.linspace(0, 1, 1201)
value = grid[[np.argmax(grid - 0.5 * 2 * grid**2)]]  # one class: gain a, curvature 2 ||phi||^2
corrected = multiclass_update(c, 1.0)
printed = [2 / 3]  # with the number of classes one too large

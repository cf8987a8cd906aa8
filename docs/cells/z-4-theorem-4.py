import numpy as np
from reference.screening.half_space import smallest_on_ball_and_half_space

b, p, a0, r, c = np.array([-1.0]), np.array([1.0]), np.array([1.0]), 1.0, 1.0
value = min(-a for a in np.linspace(0, 2, 201) if a <= c)  # <b, a> over |a - 1| <= 1 and a <= 1
corrected = smallest_on_ball_and_half_space(b, p, c, a0, r)
printed = c * np.linalg.norm(b) / np.linalg.norm(p)  # case iii

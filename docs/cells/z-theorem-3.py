import numpy as np
from reference import ElasticNetCRF, ListModel, LogLoss, Table, solve_sparse
from reference.screening.half_space import dual_ball

model = ListModel(np.array, Table, size=2)
objective = LogLoss(model, model.pack([[[-2.0, -1.0], [0.0, 0.0]]], [1]))
best = solve_sparse(objective, alpha=1.0, beta=0.5, tol=1e-12).x
theta = 1 / (1 + np.exp(2 * best[0] + best[1]))  # of the first output; that of the second is 1 - theta
whole = ElasticNetCRF(objective, alpha=1.0, beta=0.5)
w = -np.log(9) / 2  # where theta is 0.9
ball = dual_ball(whole.reduced([0]).evaluate([w]), 1)  # the second weight is 0, and gone
centre = dual_ball(whole.evaluate([w, 0.0]), 1).sums[0]  # by the whole problem's gradient
print(f"theta* = {theta:.4f}, centre {ball.sums[0]:.4f}, printed {centre:.4f}, radius {ball.radius:.4f}")
value = True
corrected = bool(abs(theta - ball.sums[0]) <= ball.radius)
printed = bool(abs(theta - centre) <= ball.radius)

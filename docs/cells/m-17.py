import numpy as np

theta, u, v, gamma = np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 3.0]), 0.5
value = np.sum((theta - gamma * (v - u)) ** 2)
rest = theta @ theta + gamma**2 * (u @ u + v @ v - 2 * u @ v)
corrected = rest - 2 * gamma * (theta @ v - theta @ u)
printed = rest - 2 * gamma * (theta @ u)  # the first line; the second has theta @ v

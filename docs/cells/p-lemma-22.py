gap, w, other = 0.125, 0.5, 0.0  # F = 0, lam = 0, kappa = 1, z = 0
claim = lambda theta: gap / theta >= 0.5 * w**2 + 0.5 * (1 - theta) * (w - other) ** 2
value = True
corrected = all(claim(theta) for theta in (0.01, 0.25, 0.5))
printed = claim(-1.0)
print(f"theta = -1: {gap / -1.0} >= {0.5 * w**2 + (w - other) ** 2}?")

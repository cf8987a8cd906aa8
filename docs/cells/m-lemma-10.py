from reference.identities.martins import lemma_10_exchange

a, u0_j, u0_k, eps = 1.0, 1.0, 2.0, 0.5
value = a * (u0_j**2 - (eps - u0_j) ** 2) + a * ((eps - u0_k) ** 2 - u0_k**2)  # the objective's change, twice
corrected = value - lemma_10_exchange(a, a, u0_j, u0_k, eps)
printed = eps**2 * (a**2 / a - a)

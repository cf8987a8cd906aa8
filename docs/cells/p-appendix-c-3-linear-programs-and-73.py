from reference import Matching
from scipy.optimize import linprog

value = -1.0  # of the only matching
corrected = float(Matching([[-1.0]]).best()[0])
printed = -linprog([1.0], A_ub=[[1.0], [1.0]], b_ub=[1, 1], bounds=(0, 1)).fun

from reference.bounds import Corollary19

value = True  # (30) divides by 1 - delta_k from k = 1 on
corrected = 0 <= Corollary19(1.0, 1.0).delta_k(1) < 1
printed = 0 <= 1**-2 < 1

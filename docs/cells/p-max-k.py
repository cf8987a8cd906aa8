from reference import Table

scores = [1.0, 1.0, 0.0]  # of three outputs
value = sorted(scores, reverse=True)[1]  # the second best output's
corrected = float(Table(scores).topk(2).scores[1])
printed = sorted(set(scores), reverse=True)[1]

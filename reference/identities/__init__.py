"""What the papers prove, as residuals (0 where an identity holds) and slacks (>= 0 where an inequality holds)."""

"""Print the pattern of the benchmarks that a pull request with the label "benchmarks" is compared by: ten kernels."""

KERNELS = (
    r"chains\.Oracles\.time_viterbi\(.accelerated",
    r"chains\.Oracles\.time_forward_backward\(.accelerated",
    r"chains\.TopK\.time_top_k\(.accelerated",
    r"trees\.Oracles\.time_sum_product\(.accelerated",
    r"arborescences\.Best\.time_best",
    r"arborescences\.Sums\.time_expectation",
    r"cuts\.MinimumCut\.time_best",
    r"matchings\.MaxMarginals\.time_max_marginals",
    r"prox\.Selections\.time_into_an_existing_array",
    r"training\.Letters\.time_full_gradient\(.accelerated",
)

print("|".join(KERNELS))

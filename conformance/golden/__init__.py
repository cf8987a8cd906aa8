"""Golden runs: recorded results of the learners. A change that keeps behaviour must not change them.

The runs are small problems and options, in public names only. Interrupted and resumed runs are not among them: laws of
runs hold these to whole ones. Records (:mod:`conformance.golden.records`) hold weights, rows of history without
seconds, certificates, messages, counts and errors. The suite compares messages, counts and outcomes exactly and
numbers to 1e-9.

    python -m conformance.golden compare --bits    says what differs in any bit, on the machine that recorded
    python -m conformance.golden record            records anew, where a difference is meant

The values record what was, not what is right; the other tests are for that.
"""

"""Golden runs: recorded results of the learners. A change that keeps behaviour must not change them.

The runs are a table of small problems and options (:mod:`conformance.golden.runs`), in public names only. Their records
(:mod:`conformance.golden.records`) hold weights, rows of history without seconds, certificates, messages, counts and
errors. ``conformance/panels/test_recorded.py`` holds messages, counts and outcomes exactly and numbers to 1e-9. And

    python -m conformance.golden compare --bits    says what differs in any bit, on the machine that recorded
    python -m conformance.golden record            records anew, where a difference is meant
    python -m conformance.golden sway              says which runs make much of little, where another machine differs

The values record what was, not what is right; the other tests are for that.
"""

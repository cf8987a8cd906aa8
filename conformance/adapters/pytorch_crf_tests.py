"""``python -m conformance.adapters.pytorch_crf_tests FILE``: pytorch-crf's own tests, its ``tests/test_crf.py``, on
``ChainCRF`` in the place of its ``CRF``. The exit status is 0 if those fail that are listed here, for the reason
listed, and no others.

The file is in https://github.com/kmkurn/pytorch-crf; a release on PyPI has no tests.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

__all__ = ["DIFFERS", "main", "outcomes"]

# What fails, by the test's name or its beginning, and what its failure shows: of most a ValueError, in our words.
MASK = "mask: expected a position in each row, got none in row 1"
DIFFERS = {
    "TestInit::test_nonpositive_num_tags": "num_tags: expected an integer >= 1, got 0",
    "TestForward::test_emissions_has_bad_number_of_dimension": "emissions: expected shape (n, batch, 5), got (1, 2)",
    "TestForward::test_emissions_and_tags_size_mismatch": "tags: expected shape (1, 2), got (2, 2)",
    "TestForward::test_emissions_last_dimension_not_equal": "emissions: expected shape (n, batch, 10), got (1, 2, 3)",
    "TestForward::test_first_timestep_mask_is_not_all_on": MASK,
    "TestForward::test_invalid_reduction": "reduction: expected one of none, sum, mean, token_mean, got 'foo'",
    "TestDecode::test_emissions_has_bad_number_of_dimension": "emissions: expected shape (n, batch, 5), got (1, 2)",
    "TestDecode::test_emissions_last_dimension_not_equal": "emissions: expected shape (n, batch, 10), got (1, 2, 3)",
    "TestDecode::test_emissions_and_mask_size_mismatch": "mask: expected shape (1, 2), got (2, 2)",
    "TestDecode::test_first_timestep_mask_is_not_all_on": MASK,
    "TestTorchScriptForward::": "torch.jit.frontend.NotSupportedError",
    "TestTorchScriptDecode::": "torch.jit.frontend.NotSupportedError",
}


class Outcomes:
    """A plugin of pytest that keeps what each test shows: nothing if it passes."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[2]
        if report.when == "call" or not report.passed:
            self.of[name] = "" if report.passed else report.longreprtext


def outcomes(file: str) -> dict[str, str]:
    """What each test of the file shows, by its name, with ``torchcrf.CRF`` a ``ChainCRF`` of that name."""
    from diptych.layers.torch import ChainCRF

    stand_in: Any = ModuleType("torchcrf")
    stand_in.CRF = type("CRF", (ChainCRF,), {})
    seen = Outcomes()
    with patch.dict(sys.modules, {"torchcrf": stand_in}):
        options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:xdist", "-W", "ignore"]
        pytest.main([file, "--import-mode=importlib", *options], plugins=[seen])
    return seen.of


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what passes, what is listed and what is wrong."""
    (file,) = sys.argv[1:] if arguments is None else arguments
    found = outcomes(file)
    reasons = {name: next((text for each, text in DIFFERS.items() if name.startswith(each)), None) for name in found}
    wrong = {name: shown for name, shown in found.items()
             if (reasons[name] is None) != (shown == "") or (reasons[name] or "") not in shown}  # fmt: skip
    wrong |= {each: "no test has this name" for each in DIFFERS if not any(name.startswith(each) for name in found)}
    for name, shown in wrong.items():
        print(f"{name}: {shown or 'passes, and is listed as different'}")
    listed = sum(reason is not None and name not in wrong for name, reason in reasons.items())
    print(f"{list(found.values()).count('')} tests pass, {listed} differ as listed, {len(wrong)} otherwise")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

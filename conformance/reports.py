"""``--report FILE``: a line of JSON for each law on each backend, for those who read results by program.

A law is a test function. Its cases are the parameters that it runs on: namespaces, dtypes, models, regularizers, ...

    {"law": "test_laws::test_the_best_output_is_the_best_of_all", "rows": ["P Algorithm 1"], "backend": "accelerated",
     "outcome": "passed", "cases": 2, "failed": [], "instance": null}

outcome: "failed" if a case failed, else "passed" if one passed, else "expected failure", else "skipped". backend: null
where a law is about the project. failed: the ids of the failed cases, in order of the alphabet; instance: the smallest
instance of the first of them, where it was drawn, else the error's last line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.ledger import ROWS

__all__ = ["Report"]

ORDER = ("failed", "passed", "expected failure", "skipped")  # an earlier one counts for the law


class Report:
    """A pytest plugin of the process that gathers the results."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.laws: dict[tuple[str, str], dict[str, Any]] = {}
        self.rows: dict[str, list[str]] = {}
        for row in ROWS:
            for test in dict.fromkeys((*row.tests, row.rejected_by)):
                self.rows.setdefault(test, []).append(row.label)
        self.path.write_text("", encoding="utf-8")  # a place that cannot be written to is said before the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        file, _, rest = report.nodeid.partition("::")
        function, _, case = rest.partition("[")
        law, told = f"{Path(file).stem}::{function}", dict(report.user_properties)
        backend = told.get("backend")
        line = self.laws.setdefault(
            (law, str(backend)),
            {
                "law": law,
                "rows": self.rows.get(law, []),
                "backend": backend,
                "outcome": "skipped",
                "cases": 0,
                "failed": [],
                "instance": None,
            },
        )
        outcome = "expected failure" if hasattr(report, "wasxfail") and report.skipped else str(report.outcome)
        line["cases"] += 1
        line["outcome"] = min(line["outcome"], outcome, key=ORDER.index)
        if report.failed:
            instance = told.get("instance") or report.longreprtext.strip().splitlines()[-1]
            line["failed"].append((case.removesuffix("]"), instance))

    def pytest_sessionfinish(self) -> None:
        """Write the lines in an order that does not depend on which process came first."""
        for line in self.laws.values():
            failures = sorted(line["failed"])
            line["failed"] = [case for case, _ in failures]
            line["instance"] = failures[0][1] if failures else None
        lines = [json.dumps(self.laws[key]) for key in sorted(self.laws)]
        self.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

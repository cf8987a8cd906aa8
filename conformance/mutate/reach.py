"""Which tests reach a line, by a run of the suite under coverage.py, and how long each takes.

As a plugin (``-p conformance.mutate.reach``) it records a tier on a few drawn instances, of a function that
draws them its first and last case on each backend; ``FOLDER`` in the environment says where.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

__all__ = ["Reach", "recorded"]

ROOT = Path(__file__).parents[2]
FOLDER = "DIPTYCH_MUTATION"
EXAMPLES = "5"


class Reach:
    """The tests that passed in the recorded run: those that reach a line, and their seconds."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.data = coverage.CoverageData(basename=str(folder / "lines"))
        self.data.read()
        self.seconds: dict[str, float] = {}
        for path in folder.glob("seconds.*.json"):
            self.seconds |= json.loads(path.read_text(encoding="utf-8"))

    def tests(self, file: Path, line: int) -> list[str]:
        """Recorded cases, quick ones first; of a line that runs at import all those that reach the file."""
        contexts = self.data.contexts_by_lineno(str(file))
        names = self.seconds.keys() & contexts.get(line, [])
        if not names:
            names = self.seconds.keys() & {test for tests in contexts.values() for test in tests}
        return sorted(names, key=lambda test: (self.seconds[test], test))


def recorded(folder: Path, processes: int, tier: str) -> Reach:
    """The record of a tier, renewed if the sources have changed."""
    stamp = hashlib.sha256()
    for path in sorted([*(ROOT / "reference").rglob("*.py"), *(ROOT / "conformance").rglob("test_*.py")]):
        stamp.update(path.read_bytes())
    kept = folder / "stamp"
    if not kept.exists() or kept.read_text() != stamp.hexdigest():
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        command = [sys.executable, "-m", "conformance", "-p", "conformance.mutate.reach", "--tier", tier, "-q"]
        command += ["--examples", EXAMPLES, "--seed", "0"]
        command += ["--numprocesses", str(processes), "--dist", "worksteal"] if processes > 1 else []
        print("recording which tests reach which lines: a run of the suite under coverage", file=sys.stderr)
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, FOLDER: str(folder)}, capture_output=True, text=True
        )
        if done.returncode > 1 or len(list(folder.glob("seconds.*.json"))) < processes:
            raise RuntimeError(f"the suite does not run without any change:\n{done.stdout[-3000:]}")
        print(*(line for line in done.stdout.splitlines() if line.startswith("FAILED ")), sep="\n", file=sys.stderr)
        import coverage

        parts = [str(path) for path in folder.glob("part.*")]
        whole = coverage.Coverage(data_file=str(folder / "lines"), config_file=False)
        whole.combine(parts)
        whole.save()
        kept.write_text(stamp.hexdigest())
    return Reach(folder)


if importlib.util.find_spec("coverage") and FOLDER in os.environ:  # in a process of the recorded run
    import coverage

    from conformance.plugin import _drawn, backend_of

    _worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    _folder = Path(os.environ[FOLDER])
    _coverage = coverage.Coverage(
        data_file=str(_folder / f"part.{_worker}"), include=[str(ROOT / "reference" / "*")], config_file=False
    )
    _seconds: dict[str, float] = {}
    _coverage.start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        cases: dict[tuple[str, str], list[pytest.Item]] = {}
        for item in items:
            cases.setdefault((item.nodeid.split("[")[0], str(backend_of(item))), []).append(item)
        items[:] = [
            item
            for each in cases.values()
            for item in (dict.fromkeys((each[0], each[-1])) if _drawn(each[0]) else each)  # all reach the same lines
        ]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
        _coverage.switch_context(item.nodeid)
        start, failed = time.perf_counter(), item.session.testsfailed
        try:
            return (yield)
        finally:
            if item.session.testsfailed == failed:
                _seconds[item.nodeid] = time.perf_counter() - start
            _coverage.switch_context("")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish() -> None:
        _coverage.stop()
        _coverage.save()
        (_folder / f"seconds.{_worker}.json").write_text(json.dumps(_seconds), encoding="utf-8")

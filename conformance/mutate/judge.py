"""Whether tests notice a mutant: it is imported in place of its module, in a process of its own."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conformance.mutate.mutants import Mutant

__all__ = ["LIMIT", "Judge"]

ROOT = Path(__file__).parents[2]
USAGE, NOTHING = 4, 5  # exit statuses of pytest
LIMIT = 30.0  # seconds beyond ten times the tests' time, because a mutant may run forever


class Judge:
    """Forks from a process that has imported pytest and the libraries, but no module that may be mutated."""

    def __init__(self) -> None:
        if not hasattr(os, "fork"):
            raise RuntimeError("python -m conformance.mutate: needs a system with fork, such as Linux or macOS")
        for name in ("pytest", "hypothesis.strategies", "numba", "networkx", "scipy.optimize", "scipy.sparse.linalg"):
            importlib.import_module(name)
        assert "reference" not in sys.modules, "a module that may be mutated is imported already"
        # kernels take constants from the reference, so that those compiled for a mutant must not stay in the user's
        # cache
        self._folder = tempfile.TemporaryDirectory()
        cache = Path(self._folder.name) / "kernels"
        if (kept := _kernels()) is not None:
            shutil.copytree(kept, cache / kept.name)
        os.environ["NUMBA_CACHE_DIR"] = str(cache)

    def verdict(self, mutant: Mutant, tests: list[str], seconds: float, tier: str = "first") -> str:
        """ "killed", "survived" or "timeout": the outcome of these tests, which take ``seconds`` without the mutant.

        "not run" where pytest runs none of them without it either, as those of another tier.
        """
        code = self._exit_status(mutant, tests, seconds, tier)
        if code in (USAGE, NOTHING):
            file = ROOT / mutant.name.split("::")[0]
            unchanged = mutant._replace(source=file.read_text(encoding="utf-8"))
            if self._exit_status(unchanged, tests, seconds, tier) in (USAGE, NOTHING):
                return "not run"
            return "killed"  # the tests cannot even be imported
        return "timeout" if code is None else "survived" if code == 0 else "killed"

    def _exit_status(self, mutant: Mutant, tests: list[str], seconds: float, tier: str) -> int | None:
        """pytest's exit status, in a child process; None where it does not end in time."""
        started, child = time.monotonic(), os.fork()
        if child == 0:
            signal.alarm(int(10 * seconds + LIMIT) + 5)  # it ends, too, where this process was stopped
            os._exit(_run(mutant, tests, tier))
        while time.monotonic() - started < 10 * seconds + LIMIT:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None


def _kernels() -> Path | None:
    """The folder of compiled kernels, found by another process, because this one must not import them."""
    code = "import accelerated.kernel as k; print(k.cache_folder() or '')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = Path(done.stdout.strip())
    return folder if done.stdout.strip() and folder.exists() else None


def _run(mutant: Mutant, tests: list[str], tier: str) -> int:
    """In the child: pytest's exit status; 0 only where all tests pass."""
    import pytest

    file = str(ROOT / mutant.name.split("::")[0])
    loader = importlib.machinery.SourceFileLoader
    stats, data = loader.path_stats, loader.get_data

    def path_stats(self: importlib.machinery.SourceFileLoader, path: str) -> object:
        if os.path.realpath(path) == os.path.realpath(file):
            raise OSError("the mutant has no compiled file, and leaves none")
        return stats(self, path)

    def get_data(self: importlib.machinery.SourceFileLoader, path: str) -> bytes:
        return mutant.source.encode() if os.path.realpath(path) == os.path.realpath(file) else data(self, path)

    loader.path_stats, loader.get_data = path_stats, get_data  # type: ignore[method-assign, assignment]
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    suite = ROOT / "conformance"
    options = [
        "-c",
        str(suite / "pytest.ini"),
        "--rootdir",
        str(suite),
        "-p",
        "conformance.plugin",
        "-x",
        "--no-shrink",
    ]
    options += ["-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist", "--tier", tier]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    try:
        return int(pytest.main([*options, *(str(suite / test) for test in tests)]))
    except BaseException:
        return 3

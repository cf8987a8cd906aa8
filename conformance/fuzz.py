"""``python -m conformance fuzz [READER ...]``: readers on files that a fuzzer changes, guided by the code they reach.

A reader gives an answer or a ValueError that names the file; anything else is a finding, and so is a reader that hangs.
Its input is written to ``--findings``. The changes are those of the suite (``conformance.damage``) and libFuzzer's own.
It needs atheris (Linux or macOS): ``pip install 'diptych[fuzz]'``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Fuzz some readers, or all, each in a process of its own: libFuzzer ends the process that it runs in."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance fuzz",
        description="Run readers of files on inputs that a fuzzer makes.",
        allow_abbrev=False,
    )
    parser.add_argument("reader", nargs="*", metavar="READER", help="such as words.txt (default: all; --list)")
    parser.add_argument("--seconds", type=int, default=60, help="how long each reader is run (default: 60)")
    parser.add_argument("--findings", default="findings", help="the folder for inputs that break a reader")
    parser.add_argument("--list", action="store_true", help="print the readers")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # fuzz the one reader in this process
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None and not options.list:
        message = f"atheris not installed; {sys.executable} -m pip install 'diptych[fuzz]'"
        print(f"python -m conformance fuzz: {message}", file=sys.stderr)
        return 2
    if options.here:
        return _fuzz(options.reader[0], options.seconds, Path(options.findings))
    from conformance.readers import READERS

    if options.list:
        print("\n".join(READERS))
        return 0
    if unknown := set(options.reader) - set(READERS):
        parser.error(f"READER: expected one of {', '.join(READERS)}, got {', '.join(sorted(unknown))}")
    Path(options.findings).mkdir(parents=True, exist_ok=True)
    broken = []
    for name in options.reader or READERS:
        command = [sys.executable, "-m", "conformance", "fuzz", name, "--here", "--seconds", str(options.seconds)]
        done = subprocess.run([*command, "--findings", options.findings], capture_output=True, text=True)
        print(f"{name:<28}{'ok' if done.returncode == 0 else 'BROKEN'}", flush=True)
        if done.returncode:
            print(done.stdout[-2000:] + done.stderr[-4000:])
            broken.append(name)
    return 1 if broken else 0


def _fuzz(name: str, seconds: int, findings: Path) -> int:
    """Fuzz one reader in this process, which libFuzzer ends."""
    import atheris  # type: ignore[import-not-found]
    import numpy as np

    packages = ["diptych.crfsuite", "diptych.files", "diptych.pictures", "reference.models"]
    with atheris.instrument_imports(include=packages):
        from conformance.damage import damaged
        from conformance.readers import READERS
    write, read = READERS[name]
    folder = Path(tempfile.mkdtemp())
    path, corpus = folder / name, folder / "corpus"
    corpus.mkdir()
    write(path)
    (corpus / "valid").write_bytes(path.read_bytes())

    def one_input(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read(path)
        except ValueError as problem:
            assert name in str(problem), problem

    def changed(content: bytes, most: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if content and rng.random() < 0.7:
            with contextlib.suppress(Exception):  # damaged content may not be a zip or JSON any more
                return next(damaged(content, rng))[:most]
        return bytes(atheris.Mutate(content, most))

    flags = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *flags, "-max_len=200000", str(corpus)], one_input, custom_mutator=changed)
    atheris.Fuzz()
    return 0

"""``python -m conformance.mutate FILE [...]``: which changes of these files no test notices."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from tqdm import tqdm

from conformance.mutate.judge import ROOT, Judge
from conformance.mutate.mutants import Mutant, mutants
from conformance.mutate.reach import Reach, recorded

EXPLAINED = Path(__file__).parent / "explained.toml"
FIRST = 25  # functions of a first round, a case of each: most mutants are noticed by them


def explained() -> dict[str, str]:
    """The reasons why some mutants need not be noticed, by name."""
    return {row["name"]: row["reason"] for row in tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]}


def files(given: list[str]) -> list[Path]:
    """The given Python files, and those in the given folders.

    Raises
    ------
    ValueError
        A path that is not below ``reference``.
    """
    found: list[Path] = []
    for path in (Path(each).resolve() for each in given):
        if not path.exists() or ROOT / "reference" not in (path, *path.parents):
            raise ValueError(f"FILE: expected a file or folder below {ROOT / 'reference'}, got {path}")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def chosen(paths: list[Path], sample: int | None, seed: int) -> list[Mutant]:
    """All mutants, or a sample that takes as many of each folder as of any other.

    A hash of its name decides whether a mutant is in the sample, so that edits elsewhere leave the sample as it is.
    """
    folders: dict[str, list[Mutant]] = {}
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        each = mutants(name, path.read_text(encoding="utf-8"))
        folders.setdefault("/".join(name.split("/")[:2]), []).extend(each)
    if sample is None:
        return [mutant for each in folders.values() for mutant in each]
    rows: list[Mutant] = []
    for each in folders.values():
        each.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
    while len(rows) < sample and any(folders.values()):
        rows += [each.pop() for each in folders.values() if each]
    return rows[:sample]


def judged(judge: Judge, reach: Reach, mutant: Mutant, seconds: float, tier: str) -> dict[str, Any]:
    """The verdict on a mutant: of recorded cases of a few functions first, then of all cases of all functions."""
    tests = reach.tests(ROOT / mutant.name.split("::")[0], mutant.line)
    functions = list(dict.fromkeys(test.split("[")[0] for test in tests))
    quick = [next(test for test in tests if test.startswith(function)) for function in functions[:FIRST]]
    rest, left = [], seconds
    for function in functions:
        left -= sum(reach.seconds[test] for test in tests if test.split("[")[0] == function)
        if left > 0 or not rest:
            rest.append(function)
    verdict = "not reached"
    for each in (quick, rest):
        if each and verdict in ("not reached", "survived", "not run"):
            took = sum(time for test, time in reach.seconds.items() if {test, test.split("[")[0]} & {*each})
            second = judge.verdict(mutant, each, took, tier)
            verdict = verdict if verdict == "survived" and second == "not run" else second
    row = {"name": mutant.name, "line": mutant.line, "before": mutant.before, "after": mutant.after}
    return {**row, "verdict": verdict, "functions": len(functions), "tried": len(rest)}


def main(arguments: list[str] | None = None) -> int:
    """Print the survivors; 1 if there are any that are not explained."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.mutate",
        description="Change the readable panel in one place at a time, and list the changes that no test notices.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="+", metavar="FILE", help="files or folders of reference/")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants, as many of each folder (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--tier", choices=("first", "all"), default="first", help="the tests that are run (first)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of recorded cases, whose functions are run on a mutant (60)"
    )
    parser.add_argument("--numprocesses", type=int, default=2, help="to record which tests reach which lines (2)")
    parser.add_argument("--folder", default=".mutation", help="where that record is kept (.mutation)")
    parser.add_argument("--only", metavar="NAME", action="append", help="the mutant of this name (repeatable)")
    parser.add_argument("--json", action="store_true", help="print every mutant as JSON")
    options = parser.parse_args(arguments)
    try:
        import coverage  # noqa: F401
    except ImportError:
        parser.error(f"coverage is not installed; {sys.executable} -m pip install 'diptych[mutation]'")
    try:
        rows = chosen(files(options.file), options.sample, options.seed)
    except ValueError as problem:
        parser.error(str(problem))
    reach = recorded(Path(options.folder).resolve() / options.tier, options.numprocesses, options.tier)
    judge, reasons, told = Judge(), explained(), []
    if options.only:
        rows = [row for row in rows if row.name in options.only]
    for mutant in tqdm(rows, disable=None, unit="mutant"):
        row = judged(judge, reach, mutant, options.seconds, options.tier)
        row["explained"] = reasons.get(mutant.name)
        told.append(row)
        if not options.json and row["verdict"] in ("survived", "not reached", "not run") and not row["explained"]:
            tqdm.write(f"{row['verdict']}: {mutant.name} (line {mutant.line})\n  - {mutant.before}\n  + {mutant.after}")
    if options.json:
        print(json.dumps(told, indent=2))
    noticed = sum(row["verdict"] in ("killed", "timeout") for row in told)
    survivors = [row for row in told if row["verdict"] not in ("killed", "timeout")]
    left = [row for row in survivors if not row["explained"]]
    print(
        f"{len(told)} mutants: {noticed} noticed, {len(survivors) - len(left)} explained, {len(left)} left",
        file=sys.stderr,
    )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())

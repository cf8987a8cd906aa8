"""Commands over many files: patterns, and results that are written file by file, so that a cut run can go on."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from diptych.commands.output import Report
from reference.files import save_bytes


def are_many(words: Sequence[str]) -> bool:
    """Whether the words may stand for several files: there are several, or one is a pattern."""
    return len(words) > 1 or any(map(_is_pattern, words))


def paths_of(words: Sequence[str]) -> list[str]:
    """The files that the words name. A pattern such as ``train/*.txt`` stands for the files that match it, sorted.
    ValueError for a pattern that matches nothing, and for a file twice.
    """
    paths: list[str] = []
    for word in words:
        matches = [word]
        if _is_pattern(word):
            matches = sorted(path for path in glob.glob(word, recursive=True) if Path(path).is_file())
        if not matches:
            raise ValueError(f"{word}: no file matches")
        paths += matches
    for i, path in enumerate(paths):
        if path in paths[:i]:
            raise ValueError(f"{path}: named twice")
    return paths


def _is_pattern(word: str) -> bool:
    return glob.has_magic(word) and ".zip:" not in word and not Path(word).exists()


def write_each(
    command: Any,
    paths: Sequence[str],
    report: dict[str, Any],
    result_of: Callable[[str], tuple[Sequence[Any], str, str]],
) -> Report:
    """Write a result for each file into the folder ``--out``, under the file's name, and report a summary.

    Files whose result is there are skipped, so that a run that was cut goes on. A result is complete or not there.

    report: the first fields of the summary; result_of: from a file to its sentences, its result and the encoding.
    """
    folder, results = Path(command.out), _results(Path(command.out), paths)
    folder.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, Any]] = []
    for path in tqdm(paths, "files", disable=command.quiet or None, unit="file", leave=False):
        each: dict[str, Any] = {"file": path, "out": str(results[path]), "skipped": results[path].exists()}
        sentences, text, codec = (None, "", "utf-8") if each["skipped"] else result_of(path)
        if sentences is not None:
            save_bytes(results[path], text.encode(codec))
        done.append({**each, "sentences": None if sentences is None else len(sentences)})
    skipped = sum(each["skipped"] for each in done)
    there = f", {skipped} were there already" if skipped else ""
    return Report(report | {"files": done}, [f"{len(done) - skipped} files tagged into {folder}{there}"])


def _results(folder: Path, paths: Sequence[str]) -> dict[str, Path]:
    """The result's path for each file. ValueError if two files have one name, or a file would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: several files are tagged into a folder, got the file {folder}")
    results: dict[str, Path] = {}
    owner: dict[Path, str] = {}
    for path in paths:
        if path == "-":
            raise ValueError("-: standard input has no name for its result; tag it alone")
        result = folder / Path(path.replace(".zip:", "-")).name
        if result in owner:
            raise ValueError(f"--out: {owner[result]} and {path} would both be written to {result}")
        if result.exists() and Path(path).exists() and result.samefile(path):
            raise ValueError(f"--out: {path} would be overwritten by its labels; give another folder")
        results[path], owner[result] = result, path
    return results

"""Runs whose results are kept in a file as they come: on any executor, cut anywhere, performed once."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.distributed.test_dying import DyingClient
from diptych.distributed import Runs, WorkersLost

RUNS = [{"x": x, "fold": fold} for x in (0.5, 3.0, -2.0) for fold in (0, 1)]


def square(folder, run):
    """x^2, in a tuple and with a key that JSON turns to text; a file in the folder for each time that it ran."""
    folder.mkdir(exist_ok=True)
    (folder / f"{run['x']} {run['fold']} {time.monotonic_ns()} {os.getpid()}").touch()
    return {"squares": (run["x"] ** 2,), 7: run["fold"]}


EXPECTED = [{"squares": [run["x"] ** 2], "7": run["fold"]} for run in RUNS]


def test_a_run_is_performed_once(tmp_path, capfd):
    def perform(runs, **options):
        return Runs(partial(square, tmp_path / "ran"), tmp_path / "kept.jsonl", **options).perform(runs)

    assert perform(RUNS[:2]) == EXPECTED[:2] and capfd.readouterr().err == ""
    assert perform(RUNS, describe=lambda run, result: f"{run['x']}: {result['squares'][0]}") == EXPECTED
    assert capfd.readouterr().err.splitlines()[0] == "  1 of 4: 3.0: 9.0"
    assert perform(reversed([*RUNS, RUNS[0]])) == [*EXPECTED, EXPECTED[0]][::-1]
    assert len(list((tmp_path / "ran").iterdir())) == len(RUNS)
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [result for _, result in lines] == EXPECTED
    assert perform([]) == []


def test_threads_and_workers_that_die_change_no_result(tmp_path):
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(3) as three:
        for k, executor in enumerate((one, three, DyingClient(3, die=0.3))):
            runs = Runs(partial(square, tmp_path / "ran"), tmp_path / f"{k}.jsonl", executor)
            assert runs.perform(RUNS) == EXPECTED
            assert len((tmp_path / f"{k}.jsonl").read_text().splitlines()) == len(RUNS)
    assert executor.died > 0


@pytest.mark.beyond("starts processes")
def test_processes(tmp_path):
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        assert Runs(partial(square, tmp_path / "ran"), tmp_path / "kept.jsonl", executor).perform(RUNS) == EXPECTED
        with pytest.raises(WorkersLost, match="cannot replace it"):
            Runs(deadly, tmp_path / "other.jsonl", executor).perform(RUNS)


def deadly(run):
    os.kill(os.getpid(), signal.SIGKILL)


@given(data=st.data())
def test_a_file_that_was_cut_goes_on(tmp_path_factory, data):
    """Wherever the process was killed while it wrote: the whole lines count, the rest is performed again."""
    folder = tmp_path_factory.mktemp("cut")
    kept, ran = folder / "kept.jsonl", folder / "ran"
    Runs(partial(square, ran), kept).perform(RUNS)
    content, marks = kept.read_bytes(), set(ran.iterdir())
    first = content.index(b"\n") + 1
    cut = data.draw(st.integers(first, len(content)))
    kept.write_bytes(content[:cut])
    assert Runs(partial(square, ran), kept).perform(RUNS) == EXPECTED
    assert kept.read_bytes() == content
    assert len(set(ran.iterdir()) - marks) == len(RUNS) - content[:cut].count(b"\n")


def test_what_is_no_file_of_results_is_left_as_it_is(tmp_path):
    for text, line in (("a,b\n1,2\n", 1), ("no end of a line", 1), ('["1", 2]\n{}\n', 2), ("\n", 1)):
        kept = tmp_path / "kept.jsonl"
        kept.write_text(text)
        with pytest.raises(ValueError, match=rf"kept\.jsonl:{line}: expected a run and its result"):
            Runs(str, kept)
        assert kept.read_text() == text


def third_fails(run):
    if run == 2:
        raise ArithmeticError("the third")
    return run


def test_results_before_an_error_are_kept(tmp_path):
    kept = tmp_path / "kept.jsonl"
    with pytest.raises(ArithmeticError, match="the third"):
        Runs(third_fails, kept).perform(range(5))
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [["0", 0], ["1", 1]]
    assert Runs(abs, kept).perform([1, -2]) == [1, 2]


def test_what_fails_is_returned_and_not_kept_and_what_has_the_same_key_is_one_run(tmp_path):
    negative = partial(Runs, kept=tmp_path / "kept.jsonl", failed=lambda result: result < 0)
    assert negative(int).perform([1, -2, 3]) == [1, -2, 3]
    assert negative(abs).perform([1, -2, 3]) == [1, 2, 3]
    by_length = partial(Runs, str.upper, tmp_path / "by length.jsonl", key=len)
    assert by_length().perform(["a", "bb"]) == ["A", "BB"]
    runs = by_length()
    assert runs.perform(["c", "ddd"]) == ["A", "DDD"] and runs.is_kept("xx") and not runs.is_kept("xxxx")


def test_a_client_that_is_closed_says_that_the_scheduler_is_gone(tmp_path):
    class Closed(DyingClient):
        def submit(self, *arguments, **options):
            self.status = "closed"
            raise Exception("of some type of Dask's")

    with pytest.raises(WorkersLost, match="the scheduler at dying is gone"):
        Runs(abs, tmp_path / "kept.jsonl", Closed(1)).perform([1])

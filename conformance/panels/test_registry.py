"""The registry: CONTRIBUTING's table is what is registered, and fits where it stands; where kernels are defined, and
what they stand on: arrays at cache lines, sums of several threads, values that live as long as their owner."""

from __future__ import annotations

import ast
import gc
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from threading import Event

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

import accelerated
from accelerated.compiled.structures.chain import viterbi_range
from accelerated.counterparts import TABLE
from accelerated.kept import Kept
from accelerated.kernel import TRIED, kernel, kernels_are_plain
from accelerated.numba_inside import CACHE_LINE
from accelerated.problems import MAKERS
from accelerated.threads import set_num_threads, summed_in_parallel
from reference.optimizers.base import Algorithm

ROOT = Path(accelerated.__file__).parents[1]
ENTRIES = [(objective, model, known) for (objective, model), row in TABLE.items() for known in row]


def printed():
    """The rows of the table: a model, what its data are packed as, and the boxes that have loops over that."""
    models = {model: [] for _, model in TABLE}
    for _, model, known in ENTRIES:
        if known not in models[model]:
            models[model].append(known)
    for model, boxes in models.items():
        packed = MAKERS[model].__annotations__["return"] if model in MAKERS else "its own"
        packed = ", ".join(name for name in packed.split(" | ") if name != "None")
        yield f"| `{model.__name__}` | {packed} | {', '.join(box.__mro__[1].__name__ for box in boxes)} |"


def test_the_table_in_contributing_is_what_is_registered():
    page = ROOT / "CONTRIBUTING.md"
    if not page.is_file():
        pytest.skip("the installed package has no CONTRIBUTING.md")
    text = page.read_text(encoding="utf-8")
    for row in printed():
        assert row in text, row
    assert text.count("| `") >= len(list(printed()))


@pytest.mark.parametrize(
    ("objective", "model", "known"), ENTRIES, ids=[f"{o.__name__}-{m.__name__}-{k.__name__}" for o, m, k in ENTRIES]
)
def test_a_counterpart_is_the_box_with_one_thing_compiled(objective, model, known):
    """A subclass with the same options, that overrides what the box has and adds ``fits`` at most; over a model of
    this panel."""
    box = known.__mro__[1]
    assert issubclass(box, Algorithm) and box.__module__.startswith("reference.")
    assert [field.name for field in fields(known)] == [field.name for field in fields(box)]
    own = {name for name, value in vars(known).items() if callable(value) or isinstance(value, classmethod)}
    assert own - {"fits"} and all(hasattr(box, name) for name in own - {"fits"})
    assert model.__module__.startswith("accelerated.") and known.__module__.startswith("accelerated.")
    assert known.__module__.removeprefix("accelerated.").startswith(box.__module__.removeprefix("reference."))


@cache
def sources():
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "accelerated").rglob("*.py"))}


@cache
def functions():
    """Of the fast panel: file, function, the names of its decorators."""
    return [
        (path, node, {getattr(getattr(each, "func", each), "id", "") for each in node.decorator_list})
        for path, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    ]


def test_a_kernel_takes_at_most_ten_arguments():
    for path, node, marks in functions():
        assert not marks & {"kernel", "inlined"} or len(node.args.args) <= 10, f"{path}: {node.name}"


def test_kernels_copy_arrays_by_loops():
    """What is put into a slice is a number."""
    for path, node, marks in functions():
        for part in ast.walk(node) if marks & {"kernel", "inlined", "answers"} else ():
            if isinstance(part, (ast.Assign, ast.AugAssign)):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                slices = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Slice)]
                names = {each.id for each in ast.walk(part.value) if isinstance(each, ast.Name)} - {"np"}
                assert not slices or not names, f"{path}: {node.name}: {ast.unparse(part)}"


def test_no_kernel_that_python_calls_makes_a_named_tuple():
    """Numba makes one by running Python on its way out of the kernel, and a Ctrl-C there ends the process."""
    makers, callers = set(), []
    for path, node, marks in functions():
        values = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        classes = [getattr(value.func, "id", "") for value in values if isinstance(value, ast.Call)]
        if "kernel" in marks and any(name[:1].isupper() for name in classes):
            makers.add(node.name)
        if not marks & {"kernel", "inlined", "answers"}:
            calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            callers += [(f"{path.name}: {node.name}", getattr(call, "id", "")) for call in calls]
    assert len(makers) > 3
    assert not [caller for caller in callers if caller[1] in makers]


def test_one_module_has_all_private_names_of_numba():
    public = {"numba", "numba.extending", "llvmlite", "llvmlite.binding"}
    for path, text in sources().items():
        private = {name for name in imports(text) if name.split(".")[0] in ("numba", "llvmlite")} - public
        assert not private or path.name == "numba_inside.py", f"{path}: {private}"


def test_kernels_are_made_of_the_files_that_their_cache_is_named_by():
    """Kernels are in ``compiled``, which imports from the panel nothing else but how they are compiled."""
    for path, text in sources().items():
        if path.is_relative_to(ROOT / "accelerated" / "compiled"):
            ours = {name for name in imports(text) if name.split(".")[0] == "accelerated"}
            assert all(name.startswith(("accelerated.compiled", "accelerated.kernel")) for name in ours), path
        elif path.name != "kernel.py":
            assert not re.search(r"^\s*@(kernel|inlined|answers|overload|intrinsic|njit)\b", text, re.MULTILINE), path


def imports(text):
    return re.findall(r"^(?:from|import) (\w+[.\w]*)", text, re.MULTILINE)


# what kernels stand on ------------------------------------------------------------------------------------------------

# cache lines ----------------------------------------------------------------------------------------------------------


@kernel
def room(n):
    return np.empty((n, 8)), np.zeros((n, 8)), np.empty(n + 3, np.uint8)


@kernel
def addresses(n):
    """Of arrays allocated by the kernel that Python calls and by a part of it, with a small array in between."""
    one, other, small = room(n)
    mine = np.empty((n, 8))
    return np.array([one.ctypes.data, other.ctypes.data, small.ctypes.data, mine.ctypes.data])


@kernel
def wrong(n):
    return n.no_such_field


def test_arrays_begin_at_cache_lines_and_numba_is_left_as_it_was():
    kept = [room(1 + n % 7) for n in range(50)]  # memory of many sizes is in use
    assert all(x.ctypes.data % CACHE_LINE == 0 for arrays in kept for x in arrays)
    for n in range(1, 200):
        assert np.all(addresses(n) % CACHE_LINE == 0)
    with pytest.raises(TypingError):
        wrong(1)
    assert "get_preferred_array_alignment" not in vars(cpu_target.target_context)


def release(version):
    return [int(digits) for digits in re.findall(r"\d+", version)[:3]]


def test_versions_that_were_tried_need_no_plain_kernels():
    """A newer version must be plain or fast, and is what the rest of the suite runs on."""
    plain = type(viterbi_range) is type(numba.njit(release))
    assert plain == kernels_are_plain()
    if release(numba.__version__) <= release(TRIED):
        assert plain == (os.environ.get("DIPTYCH_PLAIN_KERNELS", "0") == "1")


# threads --------------------------------------------------------------------------------------------------------------

PIECES = [(i, i + 1) for i in range(8)]


@pytest.fixture
def _two_threads():
    set_num_threads(2)
    yield
    set_num_threads(None)


@pytest.mark.usefixtures("_two_threads")
def test_sums_do_not_depend_on_which_piece_ends_first(rng):
    """They are added in the order of the pieces, with few of them in memory at a time."""
    x, second, made = rng.normal(size=(8, 50)) * 10.0 ** rng.integers(-8, 8, (8, 50)), Event(), []

    def zeros():
        made.append((np.zeros(50),))
        return made[-1]

    def work(lo, hi, sums):
        if lo == 0:
            second.wait()
        sums[0][:] += x[lo]
        if lo == 1:
            second.set()
        return lo

    results, (total,) = summed_in_parallel(work, PIECES, zeros)
    expected = np.zeros(50)
    for row in x:
        expected += row
    assert results == list(range(8)) and len(made) <= 3
    np.testing.assert_array_equal(total, expected)


@pytest.mark.usefixtures("_two_threads")
def test_an_error_of_one_piece_does_not_make_others_wait():
    def work(lo, hi, sums):
        if lo == 2:
            raise ValueError("piece 2")

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="piece 2"):
        pool.submit(summed_in_parallel, work, PIECES, lambda: (np.zeros(1),)).result(timeout=60)


# values that are kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owner:
    """Equal to others, and without a hash."""

    x: np.ndarray


def test_a_value_is_made_once_and_goes_with_its_owner():
    kept, made = Kept(), iter(range(9))
    one, other = Owner(np.zeros(2)), Owner(np.zeros(2))
    for _ in range(2):
        assert kept.once(one, lambda: next(made)) == 0 and kept.once(other, lambda: next(made)) == 1
    assert kept.put(one, 7) == kept.get(one) == 7 and kept.get(other) == 1
    del one
    gc.collect()
    assert kept._values == {id(other): 1}
    del other
    gc.collect()
    assert not kept._values and kept.get(Owner(np.zeros(2))) is None

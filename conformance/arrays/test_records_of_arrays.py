"""What packed data and examples are checked by: offsets, forests, lists of examples, names of examples."""

import types

import numpy as np
import pytest

from reference.arrays import Rows, unmasked
from reference.datasets import Sequences
from reference.example_errors import Example, is_frame, listed
from reference.packed import check_forests, check_offsets


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 2, 2, 5]])
def test_offsets_that_rise_are_taken(offsets):
    check_offsets("offsets", np.array(offsets), offsets[-1], "rows")


@pytest.mark.parametrize(("offsets", "end"), [([], 0), ([1, 2], 2), ([0, 2], 3), ([0, 2, 1, 3], 3), ([0, 3, 2, 4], 4)])
def test_offsets_that_fall_or_miss_an_end_are_refused(offsets, end):
    with pytest.raises(ValueError, match="^offsets: expected numbers that rise from 0"):
        check_offsets("offsets", np.array(offsets, np.int64), end, "rows")


@pytest.mark.parametrize("parents", [[1, 0], [2, 0, 1], [-1, 2, 1], [0]])
def test_cycles_are_no_forests(parents):
    with pytest.raises(ValueError, match="^parents: expected a forest, got a cycle above node . of tree 1"):
        check_forests("parents", np.array([-1, *parents]), np.array([0, 1, 1 + len(parents)]))


def test_forests_are_taken():
    check_forests("parents", np.array([-1, 0, 0, 1, -1, -1, 2, 0]), np.array([0, 4, 5, 8]))


def test_a_column_has_to_be_one():
    assert Rows.of([[1], []], width=2).n == 2
    with pytest.raises(ValueError, match=r"X\[0\]: expected feature indices in 0..1, got 2; dense features"):
        Rows.of([[2], []], width=2)


def test_masked_values_in_a_list_are_refused():
    plain, masked = np.zeros(2), np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match=r"^x\[1\]: .*1 of 2 masked"):
        unmasked("x", [plain, masked])
    whole = unmasked("x", [plain, np.ma.masked_array([1.0, 2.0])])
    assert not any(isinstance(each, np.ma.MaskedArray) for each in whole)


def test_examples_are_listed_once():
    """What can be read twice stays as it is; generators and what has ``iloc`` become lists."""
    given, array = [[1], [2]], np.zeros((2, 3))
    assert listed("X", given) is given and listed("X", array) is array
    assert listed("X", iter(given)) == given
    series = type("Series", (), {"iloc": None, "__iter__": lambda self: iter(given), "__len__": lambda self: 2})()
    assert type(listed("X", series)) is list
    for wrong in ("ab", b"ab", {"a": 1}, 3):
        with pytest.raises(TypeError, match="^X: expected a list of examples, got "):
            listed("X", wrong)
    frame = types.SimpleNamespace(columns=["a"], to_dict=dict)
    assert is_frame(frame) and not is_frame(types.SimpleNamespace(columns=["a"]))
    assert not is_frame(types.SimpleNamespace(to_dict=dict))
    with pytest.raises(TypeError, match="^X: expected a list of examples, got a single data frame"):
        listed("X", frame)


def test_names_of_examples():
    assert Example("X", 3) == "X[3]" and Example("X", 3, "edges") == "X[3] edges"


def test_data_sets_say_their_sizes():
    data = Sequences("two", [np.zeros((3, 5)), np.zeros((1, 5))], [np.zeros(3, int), np.zeros(1, int)], ("a", "b"))
    assert repr(data) == "Sequences(two: 2 sequences, 4 positions, 5 features, 2 labels)"
    assert "1 sequences, 3 positions, 5 features" in repr(Sequences("one", data.X[:1], data.Y[:1], ("a",)))
    assert repr(Sequences("none", [], [], ())) == "Sequences(none: 0 sequences, 0 positions, 0 features, 0 labels)"

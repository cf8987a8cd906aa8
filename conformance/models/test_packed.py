"""Packed data are checked whenever one is made and cannot be written to: no kernel reads where there is nothing."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import MODELS

FAR = 10**7


def _of(name):
    """A maker of a model and its data, two examples of the catalogue."""

    def make(backend):
        return MODELS[name].training(2, 3, 6).packed(backend)

    make.__name__ = name
    return make


MAKERS = {name: _of(name) for name in ("sequences", "tags {'transitions': 'bio'}", "classes", "trees", "arcs")}
MAKERS |= {name: _of(name) for name in ("images", "alignments", "windows", "candidates", "lists")}


def kernels(backend):
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Explicit()], 2)
    return model, model.pack([[[0.0], [1.0]], [[2.0], [1.0]]], [[0, 1], [0, 1]])


PACKED = (*MAKERS.values(), kernels)
packed = pytest.mark.parametrize("make", PACKED, ids=lambda make: make.__name__)
FREE = ("templates", "place", "inputs", "outputs", "like", "grams", "width")  # no kernel reads where these say
NO_SUM = ("SegmentationModel", "AlignmentModel", "SubwindowModel")  # partition functions are intractable, or not there


def used(backend, model, data):
    """All that reads packed data: predictions, objectives, a pass of training."""
    if isinstance(model, backend.KernelSequenceModel):
        return backend.mkl(model, data, lam=0.1, step_size=0.1, epochs=1, rng=0).fun
    w = np.full(model.size, 0.25)
    model.predict(data, None, w)
    hinge = backend.StructuralHinge(model, data)
    hinge.value_and_gradient(w)
    if type(model).__name__ not in NO_SUM:
        backend.LogLoss(model, data).value_and_gradient(w)
    backend.sgd(hinge, lam=0.1, step_size=0.1, epochs=1, rng=0)
    return backend.bcfw(hinge, lam=0.1, epochs=1, rng=0).fun


def places(value, path=()):
    """Paths to all arrays of a record that kernels trust."""
    if is_dataclass(value):
        return [p for f in fields(value) if f.name not in FREE for p in places(getattr(value, f.name), (*path, f.name))]
    if isinstance(value, tuple):
        return [p for i, each in enumerate(value) for p in places(each, (*path, i))]
    return [path] if isinstance(value, np.ndarray) else []


def at(value, path):
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def with_changed(value, path, change):
    """The record with the array at the path changed, each record on the way made anew."""
    if not path:
        return change(value)
    step, *rest = path
    if isinstance(step, int):
        return (*value[:step], with_changed(value[step], rest, change), *value[step + 1 :])
    return value._replace(**{step: with_changed(getattr(value, step), rest, change)})


def ways(name, x):
    """How to make an array one that no record may have at this place."""
    kinds = ["short", "deep", "type"]
    if name not in ("offsets", "indptr", "between_keys"):  # there an entry more is one that nobody uses
        kinds.append("long")
    if x.size and x.dtype == np.int64 and name != "boxes":
        kinds += ["far", "below"] * 3
    if x.size and x.dtype.kind == "f":
        kinds += ["nan", "inf"]
    return kinds


def broken(x, kind, draw):
    """The array, broken."""
    x = np.array(x)
    last = x[-1:] if len(x) else np.zeros((1, *x.shape[1:]), x.dtype)
    if kind == "short":
        return x[:-1] if len(x) else last
    if kind == "long":
        return np.concatenate([x, last])
    if kind == "deep":
        return x[None]
    if kind == "type":
        return x.astype(np.complex128) if x.dtype.kind == "f" else x.astype(np.float64)
    flat = x.reshape(-1)
    flat[draw(st.integers(0, x.size - 1))] = {"far": FAR, "below": -FAR, "nan": np.nan, "inf": np.inf}[kind]
    return x


@packed
@given(drawn=st.data())
def test_a_broken_field_is_named(backend, make, drawn):
    """Out of range, too short, too long, nan, of another type: the error names the field, and no kernel runs."""
    model, data = make(backend)
    path = drawn.draw(st.sampled_from(places(data)))
    names = [step for step in path if isinstance(step, str)]
    kind = drawn.draw(st.sampled_from(ways(names[-1], at(data, path))))
    if kind in ("short", "long", "deep"):  # then it does not fit another field, and either may be the wrong one
        names += [field.name for field in fields(data)]

    change = lambda x: broken(x, kind, drawn.draw)  # noqa: E731
    with pytest.raises((ValueError, TypeError), match="|".join(names)):
        if drawn.draw(st.booleans()):
            used(backend, model, with_changed(data, path, change))
        else:
            used(backend, model, pickle.loads(pickle.dumps(Forged(data, path, change))))


class Forged:
    """What unpickles as a record with a field of another's choice."""

    def __init__(self, data, path, change):
        self.data, (self.step, *self.rest), self.change = data, path, change

    def __reduce__(self):
        kind, values = self.data.__reduce__()
        names = [field.name for field in fields(self.data)]
        values = dict(zip(names, values, strict=True))
        values[self.step] = with_changed(values[self.step], self.rest, self.change)
        return kind, tuple(values.values())


@packed
def test_packed_data_cannot_be_written_to(backend, tmp_path, make):
    """Not in place, not by name, not through an array or a mapped file that it was made of."""
    model, data = make(backend)
    found = used(backend, model, data)
    for path in places(data):
        x = at(data, path)
        with pytest.raises(ValueError, match="read-only"):
            x[...] = 0
        if x.dtype.kind not in "iu" or not x.size:  # features, which say nothing about where to read, may be many
            continue
        for source in (np.empty_like(x), np.memmap(tmp_path / "x", x.dtype, "w+", shape=x.shape)):
            source[...] = x
            again = with_changed(data, path, lambda _, source=source: source)
            source[...] = FAR
            np.testing.assert_array_equal(at(again, path), x)
    for field in fields(data):
        with pytest.raises(AttributeError):
            setattr(data, field.name, getattr(data, field.name))
    copies = [copy.copy(data), copy.deepcopy(data), data._replace()]
    if make is not MAKERS["lists"]:  # of a function of its own
        copies.append(pickle.loads(pickle.dumps(data)))
    for same in copies:
        assert used(backend, model, same) == pytest.approx(found, rel=1e-12)


def test_offsets_that_wrap_around_are_refused(backend):
    """Differences of int64 wrap: numbers that fall must not seem to rise."""
    _, data = MAKERS["sequences"](backend)
    huge, last = np.iinfo(np.int64).max, int(data.offsets[-1])
    for offsets in ([0, huge, -5, last], [0, -huge - 1, last], [0, last + 1, last], [1, last], []):
        with pytest.raises(ValueError, match=f"^offsets: expected numbers that rise from 0 to {last}"):
            data._replace(offsets=np.array(offsets, np.int64), labels=None)
    with pytest.raises(ValueError, match="indptr"):
        backend.Rows(np.array([0, huge, -5, 1]), np.zeros(1, np.int64), np.ones(1), 1)


def test_data_of_others_are_refused(backend):
    """Every model takes what it has packed, and says so otherwise."""
    for make in PACKED[:-1]:
        model, data = make(backend)
        for other in (*(kind(backend)[1] for kind in PACKED if kind is not make), [], None, np.zeros(3)):
            if type(other) is not type(data):
                with pytest.raises(TypeError, match=r"data: expected what model\.pack returned"):
                    model.predict(other, None, np.zeros(model.size))


def test_tensors_that_changed_are_found_out(backend):
    """Arrays of other libraries cannot be locked: kernels look at them again."""
    torch = pytest.importorskip("torch")
    model = backend.SequenceModel(3, 2)
    data = model.pack([np.eye(3)], [[0, 1, 1]], like=torch.zeros(1, dtype=torch.float64))
    data.rows.indices[0] = FAR
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        model.predict(data, None, torch.ones(model.size, dtype=torch.float64))


def test_weights_mapped_from_a_file_are_weights(backend, tmp_path):
    model, data = MAKERS["sequences"](backend)
    w = np.linspace(-1.0, 1.0, model.size)
    np.save(tmp_path / "w.npy", w)
    mapped = np.load(tmp_path / "w.npy", mmap_mode="r")
    for found, expected in zip(model.predict(data, None, mapped), model.predict(data, None, w), strict=True):
        np.testing.assert_array_equal(found, expected)
    hinge = backend.StructuralHinge(model, data)
    assert hinge.value_and_gradient(mapped)[0] == hinge.value_and_gradient(w)[0]


def test_what_is_no_sequence_of_fields_is_named(backend):
    for name, field in (
        ("alignments", "features"),
        ("alignments", "columns"),
        ("arcs", "templates"),
        ("lists", "inputs"),
    ):
        with pytest.raises(TypeError, match=f"^{field}: expected a tuple, got int"):
            MAKERS[name](backend)[1]._replace(**{field: 7})


def test_best_candidates_are_candidates_of_their_images(backend):
    _, data = _of("candidates")(backend)
    for i, length in enumerate(data.lengths):
        for k in (-1, length):
            best = np.where(np.arange(data.n) == i, k, 0)
            message = f"^best: expected a candidate in 0..{length - 1} of image {i}, got {k}"
            with pytest.raises(ValueError, match=message):
                replace(data, best=best)
        assert replace(data, best=np.where(np.arange(data.n) == i, length - 1, 0)).n == data.n

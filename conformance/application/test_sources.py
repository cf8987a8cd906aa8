"""Errors about examples that were read from files name the file and the line; ``refused/sources.txt`` has commands."""

from __future__ import annotations

import pytest

from diptych.distributed import column_parts
from diptych.files.columns import load_columns
from diptych.files.sources import Source, Sourced, named
from reference.example_errors import ExampleError, ExampleTypeError

OPEN = "a B-X\n\n\nb O\nc O\nd I-X\n"


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_sentences_know_their_lines_whatever_the_part(tmp_path, parts):
    """By the words of the lines; an error beyond the last token is at the last token."""
    path, lines = str(tmp_path / "open.txt"), OPEN.split("\n")
    (tmp_path / "open.txt").write_text(OPEN)
    sentences = [x for loader in column_parts([path], parts) for x in loader()[0]]
    assert sentences == load_columns(path) and len(sentences) == 2
    for error in (ExampleError, ExampleTypeError):
        for i, x in enumerate(sentences):
            assert [lines[k - 1].split()[0] for k in x.source.lines] == [*x["word"]]
            with pytest.raises(ValueError, match=rf"open.txt, line {x.source.lines[-1]}: no$"), named(sentences):
                raise error("Y", i, len(x["word"]), "no")


def test_examples_without_a_file_keep_their_error():
    with pytest.raises(ExampleError, match=r"X\[1\]\[0\]: no"), named([Sourced({}, Source("a")), {}]):
        raise ExampleError("X", 1, 0, "no")

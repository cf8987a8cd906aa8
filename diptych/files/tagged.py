"""Files of tokens with predicted labels: the file's own lines, with the labels in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diptych.files.columns import Tokens
from diptych.files.items import escaped
from diptych.files.text import load_bytes
from reference.archives import LINE_END, MOST_BYTES, codec_of, decode_text, split_lines


def tagged_text(
    path: str, tokens: Tokens, tagged: Mapping[int, Mapping[str, Any]], *, most_bytes: int = MOST_BYTES
) -> tuple[str, str]:
    """The text of a file with predicted labels, and its encoding.

    In CoNLL-U and in items of crfsuite the labels replace those of the file. In other files they are added as a last
    column, after the file's separator. All other lines stay, and so do the ends of lines. Several best label sequences
    are written as comments above a sentence (:func:`best_lines`); probabilities as a comment in CoNLL-U and items,
    else as a last column.

    tokens: what was read from the file. tagged: the predictions by the sentence's number: "labels" and, on request,
    "best" and "probabilities". Other sentences are left out, up to the empty lines behind them.
    """
    layout, content = tokens.layout, load_bytes(path, most_bytes=most_bytes)
    text = decode_text(path, content, layout.encoding)
    lines, ends = split_lines(text), LINE_END.findall(text)
    usual = ends[0] if ends else "\n"
    if lines[-1]:
        ends.append(usual)  # of a last line without an end
    in_place = layout.form != "columns" and all("label" in each for each in tokens.sentences[:1])
    written: list[str] = []
    start = 0
    for i, numbers in enumerate(tokens.lines):
        last = i + 1 == len(tokens.lines)
        stop = len(ends) if last else _end_of(lines, numbers[-1], tokens.lines[i + 1][0] - 1)
        if (each := tagged.get(i)) is not None:
            places = [number - 1 - start for number in numbers]
            block = lines[start:stop]
            comments = best_lines(each)
            probabilities = [f"{p:.4f}" for p in each.get("probabilities", ())]
            if in_place:
                comments += [f"# probabilities = {' '.join(probabilities)}"] if probabilities else []
            for t, (k, label) in enumerate(zip(places, each["labels"], strict=True)):
                if in_place:
                    cells, column = block[k].split("\t"), (layout.columns or ()).index("label")
                    label = escaped(label) if layout.form == "items" else label
                    block[k] = "\t".join([*cells[:column], label, *cells[column + 1 :]])
                else:
                    tab = layout.separator == "tab" or (layout.separator == "any" and "\t" in block[k])
                    cells = [block[k].rstrip(" \t"), label, *probabilities[t : t + 1]]
                    block[k] = ("\t" if tab else " ").join(cells)
            block = [line + end for line, end in zip(block, ends[start:stop], strict=True)]
            first = places[0]
            while in_place and first and block[first - 1].strip() and not block[first - 1].startswith("#"):
                first -= 1  # ranges and empty nodes belong to the words
            written += [*block[:first], *(line + usual for line in comments), *block[first:]]
        start = stop
    return "".join(written), codec_of(content, layout.encoding)


def best_lines(tagged: Mapping[str, Any]) -> list[str]:
    """The best label sequences of a sentence as comments, ``# labels = SCORE: LABEL LABEL ...``."""
    return [f"# labels = {one['score']:.6g}: {' '.join(one['labels'])}" for one in tagged.get("best", ())]


def _end_of(lines: list[str], last: int, following: int) -> int:
    """Where the lines of a sentence end: behind the empty lines that follow its last token."""
    empty = next((k for k in range(last, following) if not lines[k].strip(" \t")), following)
    return next((k for k in range(empty, following) if lines[k].strip(" \t")), following)

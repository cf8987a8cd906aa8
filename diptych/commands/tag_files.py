"""The files of ``tag``: their columns, from the options, from the model or inferred; and the templates for them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from diptych.commands.parser import did_you_mean
from diptych.files.columns import FORMS, Columns, Layout, load_lines, load_tokens
from diptych.files.conllu import sentence_lines, with_column
from diptych.files.text import load_text
from reference.models.token_templates import TOKEN_TEMPLATES, columns_of, load_templates

__all__ = [
    "conllu_tagged",
    "info_of",
    "labelled",
    "layout_of",
    "say_read",
    "templates_of",
    "told_layout",
    "untagged",
]

DEFAULTS = ("chunks", "words")  # the first set whose columns the file has is the default
HEADERS = (("word", "token", "form", "words", "tokens"), ("label", "tag", "labels", "tags", "ner", "chunk", "pos"))
UNKNOWN = frozenset("_-?*.")  # placeholders for unknown labels


def told_layout(options: argparse.Namespace) -> Layout:
    """The layout that the options give."""
    names = options.columns
    if names is not None and ("label" not in names or len(names) < 2 or len(set(names)) < len(names) or not all(names)):
        expected = "different names, one of them label, such as word,tag,label"
        raise ValueError(f"--columns: expected {expected}, got {','.join(names)}")
    return Layout(names, None, options.comment)


def info_of(layout: Layout) -> dict[str, Any]:
    """A layout in the form that a model file keeps."""
    return {"columns": list(layout.columns or ()), "form": layout.form, "comment": layout.comment}


def layout_of(path: str, info: dict[str, Any], comment: str | None = None) -> Layout:
    """The layout that a model file keeps; ``comment`` from the options takes precedence."""
    columns, form, kept = info["columns"], info.get("form", "columns"), info.get("comment")
    if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"{Path(path)}: info: columns: expected names of columns, got {columns!r:.80}")
    if form not in FORMS:
        raise ValueError(f"{Path(path)}: info: form: expected one of {', '.join(FORMS)}, got {form!r:.80}")
    if kept is not None and not (isinstance(kept, str) and kept):
        raise ValueError(f"{Path(path)}: info: comment: expected what comments start with, got {kept!r:.80}")
    return Layout(tuple(columns), form, kept if comment is None else comment)


def labelled(path: str, layout: Layout, most_bytes: int, parts: int = 1) -> tuple[Layout, list[Columns]]:
    """The layout and the sentences of a file with a column of labels, or of the first of ``parts`` parts of the file
    that has sentences. ValueError if there are none.
    """
    for part in range(parts):
        complete, sentences, _ = load_tokens(path, layout, part, parts, most_bytes=most_bytes)
        if sentences:
            break
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    if len(sentences[0]) == 1:
        separators = [each for each in ",;|" if all(each in word for word in next(iter(sentences[0].values())))]
        hint = f"; columns are separated by blanks or tabs, not by {separators[0]!r}" if separators else ""
        raise ValueError(f"{path}: expected at least two columns, word and label, got one column{hint}")
    if "label" not in sentences[0]:
        raise ValueError(f"{path}: no column label; got {', '.join(sentences[0])}")
    if complete.form == "columns" and complete.comment is None and (line := _comment_like(sentences)):
        raise ValueError(f"{path}: lines such as {line!r:.80} look like comments; --comment '#' leaves them out")
    if layout.columns is None and all(label == "_" for each in sentences for label in each["label"]):
        names = ",".join("label" if name == "xpos" else "upos" if name == "label" else name for name in sentences[0])
        raise ValueError(f"{path}: all labels are _; another column is the label by --columns {names}")
    if layout.columns is None and len(sentences[0]) > 2 and all(_are_heads(each["label"]) for each in sentences):
        *others, _ = sentences[0]
        names = ",".join([*others[:-1], "label", "head"])
        raise ValueError(
            f"{path}: the labels look like heads of words; the column before is the label by --columns {names}"
        )
    if layout.columns is None and complete.form == "columns":
        _check_tokens(path, sentences)
    return complete, sentences


def _check_tokens(path: str, sentences: list[Columns]) -> None:
    """Raise ValueError if the first line is a header, or the label seems to be the first column."""
    word, *_, label = sentences[0]
    first = [column[0] for column in sentences[0].values()]
    if first[0].lower() in HEADERS[0] and first[-1].lower() in HEADERS[1]:
        raise ValueError(f"{path}: the first line, {' '.join(first)!r:.80}, names columns and is no token: remove it")
    words, labels = ({value for each in sentences for value in each[name]} for name in (word, label))
    tokens = sum(len(each[label]) for each in sentences)
    if len(labels) > max(20, len(words)) and 2 * len(labels) > tokens:
        *others, _ = names = [*sentences[0]]
        raise ValueError(
            f"{path}: {len(labels)} different labels for {len(words)} different words; if the label comes first: "
            f"--columns {','.join(['label', *others])}; if it is the last column: --columns {','.join(names)}"
        )


def _comment_like(sentences: list[Columns]) -> str | None:
    """A line that starts with # and ends in a word that is not a label of other lines, or None."""
    others: set[str] = set()
    marked: dict[str, str] = {}
    for each in sentences:
        for token in zip(*each.values(), strict=True):
            label = token[list(each).index("label")]
            if not token[0].startswith("#"):
                others.add(label)
            elif label != token[0] and label[0].isalnum():
                marked[label] = " ".join(token)
    return next((line for label, line in marked.items() if others and label not in others), None)


def _are_heads(labels: tuple[str, ...]) -> bool:
    """Whether each label is 0 or the number of another word of the sentence, and at least one is 0."""
    return "0" in labels and all(
        label.isdecimal() and int(label) <= len(labels) and int(label) != k for k, label in enumerate(labels, 1)
    )


def untagged(path: str, layout: Layout, model: Any, tokens: bool, most_bytes: int) -> list[Columns]:
    """The sentences of a file to tag. The file has columns or, with ``tokens``, a tokenised sentence on each line."""
    needed = columns_of(model.templates or ())
    if tokens:
        if len(needed) > 1:
            raise ValueError(f"--tokens: lines have words alone, and the model looks at {', '.join(needed)}")
        sentences: list[Columns] = [
            {(needed or ["word"])[0]: line} for line in load_lines(path, most_bytes=most_bytes) if line
        ]
    else:
        hint = "; --tokens reads a tokenised sentence a line" if len(needed) < 2 else ""
        try:
            sentences = load_tokens(path, layout, most_bytes=most_bytes)[1]
        except ValueError as problem:
            raise ValueError(f"{problem}{hint if 'column' in str(problem) else ''}") from None
        labels = {label for each in sentences for label in each.get("label", ())} - UNKNOWN
        if hint and layout.form != "conllu" and labels and labels.isdisjoint(model.labels):
            some = f"such as {min(labels)}" if len(labels) > 1 else min(labels)
            raise ValueError(f"{path}: none of its labels, {some:.60}, is a label of the model{hint}")
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    return sentences


def conllu_tagged(path: str, layout: Layout, tagged: dict[int, dict[str, Any]], most_bytes: int) -> list[str]:
    """The lines of a CoNLL-U file with predicted labels in place of its own.

    tagged: the predictions by the sentence's number; other sentences are left out. If there are several best label
    sequences or probabilities, these are written as comments.
    """
    column = (layout.columns or ()).index("label")
    lines: list[str] = []
    for i, sentence in enumerate(sentence_lines(load_text(path, most_bytes=most_bytes), layout.comment)):
        if (each := tagged.get(i)) is not None:
            comments = [f"# labels = {one['score']:.6g}: {' '.join(one['labels'])}" for one in each.get("best", ())]
            if "probabilities" in each:
                comments.append(f"# probabilities = {' '.join(f'{p:.4f}' for p in each['probabilities'])}")
            lines += [*with_column(*sentence, column, each["labels"], comments), ""]
    return lines


def templates_of(name: str | None, path: str, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The name and templates of a set or a file, or the default for the columns; ValueError if a column is missing."""
    if name is None:
        name = next((each for each in DEFAULTS if set(columns_of(TOKEN_TEMPLATES[each])) <= set(columns)), DEFAULTS[0])
    hint = "" if name in TOKEN_TEMPLATES or Path(name).is_file() else did_you_mean(name, TOKEN_TEMPLATES)
    if hint:
        raise ValueError(f"--templates {name}: no such set or file{hint}")
    templates = TOKEN_TEMPLATES[name] if name in TOKEN_TEMPLATES else load_templates(name)
    for column in columns_of(templates):
        if column not in columns:
            others = f"{path} has {', '.join(columns)} (--columns names them)"
            raise ValueError(f"--templates {name}: expected a column {column}, {others}")
    return name, templates


def say_read(options: argparse.Namespace, layout: Layout, sentences: int | None, templates: str) -> None:
    """Print on stderr what was inferred about the file, unless ``--quiet`` or nothing was inferred.

    sentences: None where they are not known yet.
    """
    inferred = options.columns is None or options.templates is None
    if options.quiet or not inferred or options.start is not None:
        return
    form = (
        "CoNLL-U, label = UPOS"
        if layout.form == "conllu" and options.columns is None
        else "columns " + ", ".join(layout.columns or ())
    )
    several = {None: "", 1: "one sentence (an empty line ends a sentence), "}
    read = several.get(sentences, f"{sentences} sentences, ")
    hint = f"{form} (--columns names others); templates {templates} (--templates)"
    print(f"{options.file}: {read}{hint}", file=sys.stderr)

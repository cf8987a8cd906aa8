"""The files of ``tag``: their columns, from the options, from the model or inferred; the templates for them; results of
many files, written file by file, so that a cut run can go on.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from diptych.commands.options import did_you_mean
from diptych.commands.output import Report
from diptych.files.columns import FORMS, SEPARATORS, Columns, Layout, Tokens, commas_of, load_tokens, refuse_comments
from diptych.files.conllu import CONLLU
from diptych.files.items import ITEMS
from diptych.files.templates import load_segment_templates, load_templates
from diptych.files.text import load_text
from reference.files import save_bytes
from reference.models.segment_templates import SEGMENT_TEMPLATES, segment_columns
from reference.models.token_templates import TOKEN_TEMPLATES, columns_of

DEFAULTS = ("chunks", "words")  # the first set whose columns the file has is the default
HEADERS = (("word", "token", "form", "words", "tokens"), ("label", "tag", "labels", "tags", "ner", "chunk", "pos"))
UNKNOWN = frozenset("_-?*.")  # placeholders for unknown labels


def told_layout(command: Any) -> Layout:
    """The layout that a command gives."""
    names = command.columns
    if command.templates == "items":
        if names is not None or command.separator is not None:
            raise ValueError("--templates items: lines of items have a label and attributes, between tabs")
        return Layout(ITEMS, "items", command.comment, None, command.encoding)
    if names is not None and ("label" not in names or len(names) < 2 or len(set(names)) < len(names) or not all(names)):
        expected = "different names, one of them label, such as word,tag,label"
        raise ValueError(f"--columns: expected {expected}, got {','.join(names)}")
    return Layout(names, None, command.comment, command.separator, command.encoding)


def info_of(layout: Layout) -> dict[str, Any]:
    """A layout in the form that a model file keeps."""
    return {**layout._asdict(), "columns": list(layout.columns or ())}


def layout_of(path: str, info: dict[str, Any], command: Any = None) -> Layout:
    """The layout that a model file keeps; the options --comment, --separator and --encoding take precedence."""
    columns, form = info["columns"], info.get("form", "columns")
    comment, separator, encoding = (info.get(name) for name in ("comment", "separator", "encoding"))
    header = info.get("header") or (CONLLU if form == "conllu" else None)
    names = isinstance(columns, list) and columns and all(isinstance(name, str) for name in columns)
    for name, value, right, expected in (
        ("columns", columns, names, "names of columns"),
        ("form", form, form in FORMS, f"one of {', '.join(FORMS)}"),
        ("comment", comment, comment is None or _is_word(comment), "what comments start with"),
        ("separator", separator, separator in (None, *SEPARATORS), ", ".join(SEPARATORS)),
        ("encoding", encoding, encoding is None or _is_word(encoding), "the name of an encoding"),
    ):
        if not right:
            raise ValueError(f"{Path(path)}: info: {name}: expected {expected}, got {value!r:.80}")
    if header is not None and not (isinstance(header, (list, tuple)) and len(header) == len(columns)):
        raise ValueError(f"{Path(path)}: info: header: expected a name for each column, got {header!r:.80}")
    header = None if header is None else tuple(map(str, header))
    kept = Layout(tuple(columns), form, comment, separator, encoding, header)
    told = {} if command is None else {name: getattr(command, name) for name in ("comment", "separator", "encoding")}
    return kept._replace(**{name: value for name, value in told.items() if value is not None})


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def labelled(path: str, layout: Layout, most_bytes: int, parts: int = 1, known: Collection[str] = ()) -> Tokens:
    """A file with a column of labels, or the first of ``parts`` parts of the file that has sentences, with its layout.
    What the content looks like is said on stderr. known: labels of other files.
    """
    for part in range(parts):
        found = load_tokens(path, layout, part, parts, most_bytes=most_bytes)
        if found.sentences:
            break
    complete, sentences, lines = found
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    where = f"{path}, line {lines[0][0]}"
    if len(sentences[0]) == 1:
        ((first, *_),) = sentences[0].values()
        commas = commas_of(word for each in sentences for column in each.values() for word in column)
        told = commas or f"expected at least two columns, word and label, got one column: {first!r:.80}"
        hint = "; --separator blank splits at blanks" if complete.separator == "tab" and " " in first else ""
        raise ValueError(f"{where}: {told}{hint}")
    if "label" not in sentences[0]:
        hint = " (in CoNLL-U it is UPOS; --columns names another)" if complete.form == "conllu" else ""
        raise ValueError(f"{where}: no column label; got {', '.join(sentences[0])}{hint}")
    if complete.form == "conllu" and layout.columns is None and _are_unknown(sentences):
        raise ValueError(f"{where}: all labels are _; another column is the label by --columns {_upos(sentences)}")
    if complete.form == "items" and not any(item for each in sentences for item in each["items"]):
        raise ValueError(f"{where}: no line has attributes, which stand behind the label, after tabs")
    if complete.form == "columns":
        _say(refuse_comments(path, found, "label", known))
        _say_guesses(path, found)
        if layout.columns is None:
            _say_guesses_of_labels(path, sentences)
    return found


def _say_guesses(path: str, tokens: Tokens) -> None:
    """Say what the words look like: a first line that names the columns; columns apart by commas, or by blanks."""
    layout, sentences, lines = tokens
    names = [*sentences[0]]
    first = [sentences[0][name][0] for name in names]
    where = f"{path}, line {lines[0][0]}"
    if len(names) > 1 and first[0].lower() in HEADERS[0] and first[-1].lower() in HEADERS[1]:
        shown = f"${'	'.join(first)!r}" if layout.separator == "tab" else repr(" ".join(first))
        _say(f"{where}: read as a token; if it names the columns: remove it, or --comment {shown:.80}")
    if len(names) > 1:
        cells = (cell for each in sentences for name in names[:-1] for cell in each[name])
        apart = all(x[-1] in ",;" and len(x) > 1 for x in cells)
        commas = "columns are separated by blanks or tabs alone" if apart else ""
    else:
        words = [word for each in sentences for word in each[names[0]]]
        commas = commas_of(words)
        if layout.separator == "tab" and all(" " in word for word in words):
            _say(f"{where}: read as one column with blanks, for lack of a tab; --separator blank splits at blanks")
    if commas:
        _say(f"{where}: read as columns {', '.join(names)}; {commas}")


def _say_guesses_of_labels(path: str, sentences: list[Columns]) -> None:
    """Say what the labels look like: missing, heads, words."""
    word, *_, label = names = [*sentences[0]]
    words, labels = ({value for each in sentences for value in each[name]} for name in (word, label))
    if _are_unknown(sentences):
        _say(f"{path}: all labels are _; another column is the label by --columns {_upos(sentences)}")
    if len(names) > 2 and all(_are_heads(each["label"]) for each in sentences):
        told = ",".join([*names[:-2], "label", "head"])
        _say(f"{path}: the labels look like heads of words; the column before is the label by --columns {told}")
    tokens = sum(len(each[label]) for each in sentences)
    if len(labels) > max(20, len(words)) and 2 * len(labels) > tokens:
        told = f"if the label comes first: --columns {','.join(['label', *names[:-1]])}"
        _say(f"{path}: {len(labels)} different labels for {len(words)} different words; {told}")


def _are_unknown(sentences: list[Columns]) -> bool:
    return all(label == "_" for each in sentences for label in each["label"])


def _upos(sentences: list[Columns]) -> str:
    """The names of the columns with the label moved from UPOS to XPOS."""
    return ",".join("label" if name == "xpos" else "upos" if name == "label" else name for name in sentences[0])


def _are_heads(labels: tuple[str, ...]) -> bool:
    """Whether each label is 0 or the number of another word of the sentence, and at least one is 0."""
    return "0" in labels and all(x.isdecimal() and len(labels) >= int(x) != k for k, x in enumerate(labels, 1))


def untagged(path: str, layout: Layout, model: Any, tokens: bool, most_bytes: int) -> Tokens:
    """A file to tag: columns or, with ``tokens``, sentences as lines. What it looks like is said on stderr."""
    needed = columns_of((*(model.templates or ()), *(getattr(model, "edge_templates", None) or ())))
    needed = list(dict.fromkeys([*needed, *segment_columns(getattr(model, "segment_templates", ()))]))
    if tokens and layout.form == "items":
        raise ValueError("--tokens: lines have words, and the model takes items of crfsuite")
    if tokens and len(needed) > 1:
        raise ValueError(f"--tokens: lines have words alone, and the model looks at {', '.join(needed)}")
    hint = "; --tokens reads a tokenised sentence a line" if len(needed) < 2 else ""
    if tokens:
        sentences = _sentences_a_line(path, layout, most_bytes)
        found = Tokens(layout, [{(needed or ["word"])[0]: line} for line in sentences], [])
    else:
        try:
            found = load_tokens(path, layout, most_bytes=most_bytes)
        except ValueError as problem:
            raise ValueError(f"{problem}{hint if 'column' in str(problem) else ''}") from None
    if not found.sentences:
        raise ValueError(f"{path}: no sentences")
    if found.layout.form == "conllu" and not tokens and "label" not in found.sentences[0]:
        raise ValueError(f"{path}: global.columns: no column for the labels; got {', '.join(found.sentences[0])}")
    if not tokens and layout.form not in ("conllu", "items"):
        *_, last = first = found.sentences[0]
        column, known = "label", model.token_labels
        if "label" not in first:
            column, start = last, f"{last}[0]="
            known = {name.removeprefix(start) for name in model.vocabulary or () if name.startswith(start)}
        if len(first) > 1 and known:
            _say(refuse_comments(path, found, column, known))
        _say_guesses(path, found)
        labels = {label for each in found.sentences for label in each.get("label", ())} - UNKNOWN
        if hint and labels and labels.isdisjoint(model.token_labels):
            some = f"such as {min(labels)}" if len(labels) > 1 else min(labels)
            _say(f"{path}: none of its labels, {some:.60}, is a label of the model{hint}")
    return found


def _sentences_a_line(path: str, layout: Layout, most_bytes: int) -> list[tuple[str, ...]]:
    """The words of each line that is not empty. Said on stderr: the file looks like columns."""
    text = load_text(path, encoding=layout.encoding, most_bytes=most_bytes)
    tab = next((number for number, line in enumerate(text, 1) if "\t" in line), None)
    if tab is not None:
        _say(f"{path}, line {tab}: a tab is read as a blank between words; if lines are tokens, leave out --tokens")
    lines = [tuple(word for word in line.replace("\t", " ").split(" ") if word) for line in text]
    while lines and not lines[-1]:
        lines.pop()
    sizes = {len(line) for line in lines if line}
    if len(lines) > 1 and (sizes == {1} or (len(sizes) == 1 and () in lines)):
        words = "one word" if sizes == {1} else f"{sizes.pop()} words, with empty lines between"
        _say(f"{path}: every line has {words}: if lines are tokens, leave out --tokens")
    return [line for line in lines if line]


def _say(guess: str) -> None:
    if guess:
        print(guess, file=sys.stderr)


def templates_of(command: Any, layout: Layout, sentences: int | None) -> tuple[str, ...] | None:
    """The templates of the set that is given, without those of a column tag where there is none, or of a file, or the
    default; None for items. What was inferred about the file and its sentences (None: unknown) is said on stderr.
    """
    name, columns, file = command.templates, layout.columns or (), ", ".join(command.file)
    if name == "items":
        return None
    if name is None:
        name = next((each for each in DEFAULTS if set(columns_of(TOKEN_TEMPLATES[each])) <= set(columns)), DEFAULTS[0])
    hint = "" if name in TOKEN_TEMPLATES or Path(name).is_file() else did_you_mean(name, TOKEN_TEMPLATES)
    if hint:
        raise ValueError(f"--templates {name}: no such set or file{hint}")
    templates, told = TOKEN_TEMPLATES[name] if name in TOKEN_TEMPLATES else load_templates(name, columns), name
    if name in TOKEN_TEMPLATES and "tag" not in columns and "tag" in columns_of(templates):
        templates = tuple(each for each in templates if "tag" not in columns_of([each]))
        told = f"{name} without tag"
    for column in columns_of(templates):
        if column not in columns:
            others = f"{file} has {', '.join(columns)} (--columns names them)"
            raise ValueError(f"--templates {name}: expected a column {column}, {others}")
    if not command.quiet and (command.columns is None or command.templates is None):
        form = f"columns {', '.join(columns)}{' apart by tabs' * (layout.separator == 'tab')}"
        if layout.form == "conllu" and command.columns is None:
            form = "CoNLL-U, label = UPOS"
        several = {None: "", 1: "one sentence (an empty line ends a sentence), "}
        read = several.get(sentences, f"{sentences} sentences, ")
        _say(f"{file}: {read}{form} (--columns names others); templates {told} (--templates)")
    return templates


def segment_templates_of(command: Any, layout: Layout) -> tuple[str, ...]:
    """The templates of segments in the file of --templates, else those of the package whose columns the files have.

    ValueError for those of a file that are not used, without --segments.
    """
    name, columns = command.templates, [column for column in layout.columns or () if column != "label"]
    own = name not in (None, "items", *TOKEN_TEMPLATES)
    found = load_segment_templates(name, layout.columns or ()) if own else ()
    if found and command.segments is None:
        raise ValueError(f"--templates {name}: it has templates of segments, such as {found[0]}; give --segments W")
    for column in segment_columns(found):
        if column not in columns:
            raise ValueError(f"--templates {name}: expected a column {column}, got {', '.join(columns)}")
    return found or tuple(each for each in SEGMENT_TEMPLATES if set(segment_columns([each])) <= set(columns))


# many files -----------------------------------------------------------------------------------------------------------


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
    result_of: Callable[[str], tuple[Sequence[Any], str, str]],
) -> Report:
    """Write a result for each file into the folder ``--out``, under the file's name, and report a summary.

    Files whose result is there are skipped, so that a run that was cut goes on. A result is complete or not there.
    result_of: from a file to its sentences, its result and the encoding.
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
    return Report({"files": done}, [f"{len(done) - skipped} files tagged into {folder}{there}"])


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

"""Files of templates: those of CRF++ and wapiti (:mod:`reference.models.macros`), and TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from diptych.files.text import load_text
from reference.models import token_templates
from reference.models.macros import FLAVOURS, line_of, named_macro, with_names
from reference.models.segment_templates import MACRO, check_segment_templates

_THEIRS = re.compile(r"[UuBb*].*%[xXtTmM]\[|[UuBb*]\d*\s*$")
_OF_SEGMENTS = re.compile(r"S[^%]*%[sbel]")
_WAPITI = re.compile(r"[ub*]|.*%(?:[XtTmM]|x\[[@ +]|x\[[^]]*, )")


def load_templates(path: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The templates of a file, as ``TaggingModel`` takes them.

    Parameters
    ----------
    path : str
        A file of CRF++ or wapiti, or TOML; ``crfpp:FILE`` and ``wapiti:FILE`` say which, else it is recognised.
    columns : sequence of str
        The names of the columns of the data, "label" among them. Macros have their numbers.

    Raises
    ------
    ValueError
        Naming the file and the line: a column that does not exist, an unknown macro, a line that occurs
        twice.
    """
    flavour, _, file = path.partition(":")
    if flavour not in FLAVOURS:
        flavour, file = "", path
    if not flavour and not Path(file).is_file():
        return token_templates.load_templates(file)
    text = load_text(file)
    if not flavour:
        lines = [line for line in text if line.strip() and not line.startswith("#") and not _OF_SEGMENTS.match(line)]
        if not lines or not _THEIRS.match(lines[0]):
            return token_templates.load_templates(file)
        flavour = "wapiti" if any(map(_WAPITI.match, lines)) else "crfpp"
    templates: dict[str, int] = {}
    transitions = 0  # the line that asks for them
    for number, line in _lines(text, flavour):
        try:
            template = with_names(flavour, line, columns)
            parsed = line_of(template)
            earlier = templates.get(template, 0) or (transitions if parsed and parsed.transitions else 0)
            if earlier:
                raise ValueError(f"asks for the same weights as line {earlier}: {line!r:.80}")
        except ValueError as problem:
            raise ValueError(f"{file}, line {number}: {str(problem).removeprefix('templates: ')}") from None
        templates[template] = number
        if parsed and parsed.transitions:
            transitions = number
    if not templates:
        raise ValueError(f"{file}: no templates")
    return tuple(templates)


def load_segment_templates(path: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The templates of segments in a file of templates, as ``ChunkingModel`` takes them; () if there are none.

    Lines beside those of CRF++ or wapiti that begin with S, such as ``S01:%s[0]/%e[1,0]``, or in TOML ``segments =
    ["%s[word]"]``. Raises ValueError as :func:`load_templates`.
    """
    flavour, _, file = path.partition(":")
    file = file if flavour in FLAVOURS else path
    lines = [(number, line) for number, line in enumerate(load_text(file), 1) if _OF_SEGMENTS.match(line)]
    toml = not lines and flavour not in FLAVOURS and not any(map(_THEIRS.match, load_text(file)))
    each = enumerate(token_templates.lists_of(file).get("segments", []), 1) if toml else lines
    templates: tuple[str, ...] = ()
    for number, line in each:
        try:
            template = line if toml else MACRO.sub(partial(named_macro, columns), line)
            templates = check_segment_templates([*templates, template])
        except ValueError as problem:
            where = f"{file}, segments[{number - 1}]" if toml else f"{file}, line {number}"
            raise ValueError(f"{where}: {str(problem).removeprefix('segment_').removeprefix('templates: ')}") from None
    return templates


def _lines(text: list[str], flavour: str) -> Iterator[tuple[int, str]]:
    """The numbers and texts of the lines that are templates."""
    for number, line in enumerate(text, 1):
        if flavour == "wapiti":
            line = line.partition("#")[0].rstrip()
        if line.strip() and not line.startswith("#") and not _OF_SEGMENTS.match(line):
            yield number, line

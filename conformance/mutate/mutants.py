"""Mutants of a source: copies with one small change each, of a constant, a comparison, a sign or an operator."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Mutant", "mutants"]

COMPARISONS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
OPERATORS: dict[type, tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NAMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil"}
NAMES |= {after: before for before, after in NAMES.items()}


class Mutant(NamedTuple):
    """One change. name: file, function, kind and number of the change there, which edits elsewhere leave alone."""

    name: str
    line: int
    before: str  # the line
    after: str
    source: str  # the whole file


class _Change(NamedTuple):
    node: ast.AST
    kind: str
    start: int
    end: int
    text: str


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a file, by its lines; annotations, messages of errors and ``__all__`` stay as they are."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    content, numbers = source.encode(), Counter[str]()
    for function, change in _changes(ast.parse(source), content, starts):
        changed = content[: change.start] + change.text.encode() + content[change.end :]
        number = sum(1 for start in starts[1:] if start <= change.start)
        name = f"{file}::{function}::{change.kind}"
        numbers[name] += 1
        text = changed.decode()
        yield Mutant(
            f"{name}::{numbers[name]}", number + 1, lines[number].strip(), text.splitlines()[number].strip(), text
        )


def _changes(tree: ast.Module, content: bytes, starts: list[int]) -> Iterator[tuple[str, _Change]]:
    """The changes with the functions that they are in."""

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, words: tuple[str, str], node: ast.AST) -> Iterator[_Change]:
        """The operator stands between its operands, beside parentheses."""
        start, end = span(left)[1], span(right)[0]
        gap, spaced = content[start:end].decode(), words[0].replace(" ", r"\s+")
        pattern = rf"\b{spaced}\b" if words[0][0].isalpha() else re.escape(words[0])
        if "#" not in gap and (match := re.search(pattern, gap)):
            yield _Change(node, words[0], start + match.start(), start + match.end(), words[1])

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, _Change]]:
        if isinstance(node, ast.Raise) or _of_names(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}" if function else node.name
        for change in here(node):
            yield function, change
        for field, child in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ast.AST):
                    yield from visit(each, function)

    def here(node: ast.AST) -> Iterator[_Change]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield _Change(node, "constant", *span(node), _other(node.value))
        elif isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                yield from between(left, right, COMPARISONS[type(operator)], node)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            yield from between(node.left, node.right, OPERATORS[type(node.op)], node)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from between(left, right, OPERATORS[type(node.op)], node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            start, word = span(node)[0], "-" if isinstance(node.op, ast.USub) else "not "
            yield _Change(node, "unary", start, start + len(word), "")
        elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            before, after = OPERATORS[type(node.op)]
            start = span(node.target)[1]  # type: ignore[arg-type]
            gap = content[start : span(node.value)[0]].decode()
            if match := re.search(re.escape(f"{before}="), gap):
                yield _Change(node, f"{before}=", start + match.start(), start + match.end(), f"{after}=")
        elif isinstance(node, ast.Call):
            name, end = node.func, span(node.func)[1]
            word = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
            if word in NAMES:
                yield _Change(node, word, end - len(word), end, NAMES[word])

    yield from visit(tree, "")


def _of_names(node: ast.AST) -> bool:
    """Whether a statement is ``__all__ = ...`` or one for type checkers."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _other(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    return "1.0" if value == 0 else repr(2 * value)

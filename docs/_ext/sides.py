"""Both sides of an identity or inequality, from what a law's functions return while it is measured.

A residual or a slack is a difference. The terms that it adds are one side, those that it takes away the other. Each
side is shown as it stands in the code, with its value on the first instance: of an array, its first row.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import reduce
from types import FrameType
from typing import Any

import numpy as np

from conformance.identities import Law, Measured, measure

FOLDERS = ("reference.identities", "conformance.identities")
AROUND = ("float", "np.max", "np.abs", "min", "max", "abs")  # calls that only condense a difference
Sides = list[tuple[str, str, str]]  # two expressions with their values; before the second "= " or "≥ "


def measured(law: Law, panel: Any, place: int) -> tuple[Measured, list[Sides]]:
    """The law on drawn instances of a panel; both sides of each of its differences."""
    found: dict[Any, list[Sides]] = {}

    def returned(frame: FrameType, event: str, _: Any) -> None:
        line = frame.f_code, frame.f_lineno
        if event == "return" and line not in found and _is_law(frame):
            found[line] = [_sides(each, frame) for each in _differences(_returned(frame), frame)]

    sys.setprofile(returned)
    try:
        result = measure(law, panel, 0, place)
    finally:
        sys.setprofile(None)
    return result, [sides for each in found.values() for sides in each]


def _is_law(frame: FrameType) -> bool:
    """Whether it is a function of the laws that was called by one of them, and not a method of what they draw."""
    own, caller = (f.f_globals.get("__name__", "") if f is not None else "" for f in (frame, frame.f_back))
    name = frame.f_code.co_qualname.split("<locals>.")[-1]
    return own.startswith(FOLDERS) and caller.startswith(FOLDERS[1]) and "." not in name and not name.startswith("<")


def _returned(frame: FrameType) -> ast.expr | None:
    """What the ``return`` of the frame's line says."""
    source, first = inspect.getsourcelines(frame.f_code)
    line = frame.f_lineno - first + 1
    nodes = (node for node in ast.walk(ast.parse(textwrap.dedent("".join(source)))) if isinstance(node, ast.Return))
    return next((node.value for node in nodes if node.lineno <= line <= (node.end_lineno or 0)), None)


def _differences(node: ast.expr | None, frame: FrameType) -> Iterator[ast.expr]:
    """The differences in a returned expression: itself, or those that it condenses. What only turns the sign of a
    residual, in the laws, is none.
    """
    signs = {1, -1} if frame.f_globals["__name__"].startswith(FOLDERS[1]) else {-1}
    match node:
        case ast.Tuple(elts=parts) | ast.Dict(values=parts):
            inside = parts
        case ast.Call(func=called, args=parts) if ast.unparse(called) in AROUND:
            inside = parts
        case ast.IfExp(test=test, body=body, orelse=other):
            inside = [body if _value(test, frame) else other]
        case ast.BinOp(op=ast.Div(), left=left):
            inside = [left]
        case _:
            inside = []
            if node is not None and {sign for _, sign in _terms(node)} >= signs:
                yield node
    for each in inside:
        yield from _differences(each, frame)


def _terms(node: ast.expr) -> Iterator[tuple[ast.expr, int]]:
    """The terms of a sum, each with its sign."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            yield from _terms(left)
            yield right, 1 if isinstance(sign, ast.Add) else -1
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand, -1
        case _:
            yield node, 1


def _sides(node: ast.expr, frame: FrameType) -> Sides:
    sides = [[term for term, sign in _terms(node) if sign == kind] for kind in (1, -1)]
    left, right = (reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), terms or [ast.Constant(0)]) for terms in sides)
    values = [np.asarray(_value(each, frame)) for each in (left, right)]
    same = np.allclose(*values, rtol=1e-9, atol=1e-12)
    rows = [each.reshape(-1, each.shape[-1])[0] if each.ndim > 1 else each for each in values]
    shown = [np.array2string(each, precision=5, threshold=6, edgeitems=2) for each in rows]
    return [("", ast.unparse(left), shown[0]), ("= " if same else "≥ ", ast.unparse(right), shown[1])]


def _value(node: ast.expr, frame: FrameType) -> Any:
    code = compile(ast.fix_missing_locations(ast.Expression(node)), "side", "eval")
    return eval(code, {**frame.f_globals, **frame.f_locals})

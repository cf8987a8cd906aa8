"""Pictures as SVG within a page, in its colours in the light and in the dark; a picture for each step of a run."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, NamedTuple

Point = tuple[float, float]


class Drawing:
    """Marks on a sheet, in its pixels; ``kind`` is a class of the site's style: ink, faint, best, shade or mark."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.marks: list[str] = []

    def line(self, points: Iterable[Any], kind: str = "ink", width: float = 1.5, opacity: float = 1.0) -> None:
        """A line through points."""
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._add("polyline", "", points=joined, class_=f"line {kind}", stroke_width=width, opacity=f"{opacity:.2f}")

    def dot(self, at: Point, radius: float = 4.0, kind: str = "ink", shade: float = 1.0) -> None:
        """A disc with a rim; shade: how much of it is filled with colour, 0 to 1."""
        place = {"cx": f"{at[0]:.1f}", "cy": f"{at[1]:.1f}", "r": f"{radius:.1f}"}
        self._add("circle", "", class_="paper", **place)
        self._add("circle", "", class_=f"area {kind}", fill_opacity=f"{shade:.2f}", **place)

    def box(self, corner: Point, size: Point, kind: str = "ink", shade: float = 0.0, width: float = 1.0) -> None:
        """A rectangle, from its upper left corner."""
        (x, y), (w, h) = corner, size
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{max(w, 0.0):.1f}", "height": f"{max(h, 0.0):.1f}"}
        self._add("rect", "", class_=f"area {kind}", fill_opacity=f"{shade:.2f}", stroke_width=width, **place)

    def text(self, at: Point, text: str, kind: str = "ink", anchor: str = "middle", size: float = 12.0) -> None:
        """Words, on their middle line."""
        place = {"x": f"{at[0]:.1f}", "y": f"{at[1] + 0.35 * size:.1f}", "text_anchor": anchor, "font_size": size}
        self._add("text", escape(text), class_=f"words {kind}", **place)

    def _add(self, tag: str, inside: str, **attributes: Any) -> None:
        words = " ".join(f'{name.rstrip("_").replace("_", "-")}="{value}"' for name, value in attributes.items())
        self.marks.append(f"<{tag} {words}>{inside}</{tag}>")

    def svg(self, label: str) -> str:
        """The picture; ``label`` is what is read out in its place."""
        box = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}"'
        return f'<svg role="img" aria-label="{escape(label)}" {box}>{"".join(self.marks)}</svg>'


class Frame(NamedTuple):
    """A step: its picture, and one sentence about what happened."""

    drawing: Drawing
    says: str


class Run(NamedTuple):
    """code: the function that ran; final: the state after the last frame."""

    code: Callable[..., Any]
    frames: list[Frame]
    final: Any

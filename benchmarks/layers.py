"""Layers of PyTorch beside pytorch-crf and torch-struct, on the same scores in float32: losses with gradients, and
decoding; log-partitions of dependency trees with gradients.

``python docs/figures.py layers`` prints milliseconds and ratios: `figures`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from diptych.experiments.clock import best_of


def chains(what: str, B: int, n: int, L: int, peer: bool) -> Callable[[], Any]:
    """A call on full rows. Raises ImportError where PyTorch or the peer is not installed."""
    import torch

    from diptych.layers.torch import ChainCRF

    if peer:
        from torchcrf import CRF as ChainCRF  # type: ignore[no-redef]
    torch.manual_seed(0)
    crf, emissions, tags = ChainCRF(L), torch.randn(n, B, L, requires_grad=True), torch.randint(0, L, (n, B))
    return (lambda: crf(emissions, tags).backward()) if what == "loss" else lambda: crf.decode(emissions)


def trees(B: int, n: int, peer: bool) -> Callable[[], Any]:
    """Log-partitions and their gradients. Raises ImportError where PyTorch or the peer is not installed."""
    import torch

    torch.manual_seed(0)
    if peer:
        from torch_struct import NonProjectiveDependencyCRF

        arcs, lengths = torch.randn(B, n, n, requires_grad=True), torch.full((B,), n)  # the diagonal: the root's arcs
        return lambda: NonProjectiveDependencyCRF(arcs, lengths).partition.sum().backward()
    from diptych.layers.torch import arborescence

    values = torch.randn(B, n, n + 1, requires_grad=True)
    return lambda: arborescence.log_partition(values).sum().backward()


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, float]] = {  # the last: how many times as fast
    f"{what}, B{B} n{n} L{L}": (chains, (what, B, n, L), "pytorch-crf", 12.0)
    for B, n, L in ((32, 30, 20), (128, 100, 50))
    for what in ("loss", "decode")
}
CALLS |= {f"trees, B32 n{n}": (trees, (32, n), "torch-struct", 3.0) for n in (30, 60)}


class Layers:
    """Seconds of a call, on the threads of PyTorch."""

    params: tuple[list[Any], ...] = ([*CALLS], ["ours", "theirs"], [1, 2])
    param_names: tuple[str, ...] = ("call", "library", "threads")

    def setup(self, call: str, library: str, threads: int) -> None:
        made, sizes, peer, _ = CALLS[call]
        try:
            import torch

            self.run = made(*sizes, library == "theirs")
        except ImportError:
            raise NotImplementedError(f"PyTorch or {peer}: not installed") from None  # tells asv to skip
        torch.set_num_threads(threads)
        self.run()

    def time_call(self, *_: Any) -> None:
        self.run()


def figures() -> Iterator[tuple[str, float, str, float | None, bool]]:
    """Name, value, unit, target and whether it is the least, of each figure; nothing without PyTorch."""
    try:
        import torch
    except ImportError:
        print("  layers: PyTorch is not installed", file=sys.stderr)
        return
    for name, (made, sizes, peer, target) in CALLS.items():
        seconds = []
        for threads in (2, 1):
            torch.set_num_threads(threads)
            seconds.append(best_of(made(*sizes, False), 20))
            yield f"{name}, {threads} threads", 1e3 * seconds[-1], "ms", None, False
        yield f"{name}, one thread / two", seconds[1] / seconds[0], "ratio", None, True
        try:
            theirs = best_of(made(*sizes, True), 5)
        except ImportError:
            print(f"  {peer} is not installed: no ratios", file=sys.stderr)
            continue
        yield f"{name}, {peer}", 1e3 * theirs, "ms", None, False
        yield f"{name}, {peer} / ours, one thread", theirs / seconds[1], "ratio", target, True

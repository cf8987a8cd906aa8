"""Fits by every optimiser of the compiled panel, through the command and from Python: none may compile a kernel."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import accelerated as sp
from diptych.check import problem
from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS
from diptych.commands.main import main
from diptych.warm import FIRST_CALLS, first_call

MORE = {name: "--loss hinge" for name in HINGE_ONLY}
MORE |= {name: "--loss hinge --smoothing entropy" for name in OPTIMIZERS if name.startswith("casimir")}
MORE |= {"casimir-svrg-const": "--loss hinge --smoothing top-k --k 5", "online-proximal": "--step-size 0.1"}
SENTENCES = "Birds N\nfly V\nsouth A\n\nfish N\nswim V\n\nducks N\nswim V\n\n"

compiled: list[str] = []
handler = logging.Handler()
handler.emit = lambda record: compiled.append(record.getMessage())  # type: ignore[method-assign]
logging.getLogger("accelerated.kernel").setLevel(logging.INFO)
logging.getLogger("accelerated.kernel").addHandler(handler)
Path("sentences.txt").write_text(SENTENCES)
USUAL = "--limit 20 --epochs 20 --quiet"
COMMANDS = [f"train letters {USUAL} --optimizer {name} {MORE.get(name, '')}" for name in OPTIMIZERS]
COMMANDS += [f"train letters {USUAL} --loss hinge", f"train letters {USUAL} --learner mkl --step-size 0.1"]
COMMANDS += [f"train letters {USUAL} --learner sparse-crf", "tag train sentences.txt --quiet --save model.npz"]
COMMANDS += ["tag predict model.npz sentences.txt", "tag evaluate model.npz sentences.txt"]
for command in COMMANDS:
    print("diptych", command, flush=True)
    if status := main(command.split()):
        sys.exit(f"exit status {status}")
for name in FIRST_CALLS:
    first_call(name)
smooth = problem(sp, 1, "StructuralHinge", smoothing=sp.smoothings.Entropy())
sp.prox_linear(smooth, lam=0.2, mu=0.3, iterations=2, rng=1)
sp.solve_sparse(problem(sp, 1, "LogLoss"), beta=0.02)
sys.exit("\n".join(compiled) or 0)

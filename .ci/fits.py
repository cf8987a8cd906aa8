"""Fits by every optimiser of the compiled panel, through the command and from Python: none may compile a kernel."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS
from diptych.commands.main import main
from diptych.warm import FIRST_CALLS, first_call

MORE = {name: "--loss hinge" for name in HINGE_ONLY}
MORE |= {name: "--loss hinge --smoothing entropy" for name in OPTIMIZERS if name.startswith("casimir")}
MORE |= {"casimir-svrg-const": "--loss hinge --smoothing top-k --k 5", "online-proximal": "--step-size 0.1"}
SENTENCES = "Birds N\nfly V\nsouth A\n\nfish N\nswim V\n\nducks N\nswim V\n\n"

compiled: list[str] = []  # lines of the log
logging.getLogger("accelerated.kernel").setLevel(logging.INFO)
logging.getLogger("accelerated.kernel").addFilter(lambda record: compiled.append(record.getMessage()) or True)
Path("sentences.txt").write_text(SENTENCES)
USUAL = "--limit 20 --epochs 20 --quiet"
COMMANDS = [f"train letters {USUAL} --optimizer {name} {MORE.get(name, '')}" for name in OPTIMIZERS]
COMMANDS += [f"train letters {USUAL} --loss hinge", f"train letters {USUAL} --learner mkl --step-size 0.1"]
COMMANDS += [f"train letters {USUAL} --learner sparse-crf", "tag train sentences.txt --quiet --save model.npz"]
COMMANDS += ["tag train sentences.txt --quiet --c1 0.1 --save model.npz"]
COMMANDS += ["tag predict model.npz sentences.txt", "tag evaluate model.npz sentences.txt"]
for command in COMMANDS:
    print("diptych", command, flush=True)
    if status := main(command.split()):
        sys.exit(f"exit status {status}")
for name in FIRST_CALLS:  # those from Python alone
    first_call(name)
sys.exit("\n".join(compiled) or 0)

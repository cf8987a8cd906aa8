"""Each benchmark once with its first, middle and last parameters, all in one process (asv starts one for each of 590):
none is broken."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from asv_runner.discovery import disc_benchmarks

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    sys.path.insert(0, str(ROOT))
    ran, sound = 0, True
    for benchmark in disc_benchmarks(str(ROOT / "benchmarks")):
        print(benchmark.name, flush=True)
        sound &= benchmark.check(str(ROOT))
        benchmark.set_cache(benchmark.do_setup_cache())
        last = math.prod(map(len, benchmark.params)) - 1
        for k in sorted({0, last // 2, last}):
            benchmark.set_param_idx(k)
            if not benchmark.do_setup():  # else it says that a library is not installed
                benchmark.func(*benchmark._build_params())
                ran += 1
            benchmark.do_teardown()
    print(f"{ran} runs of benchmarks")
    return 0 if sound and ran else 1


if __name__ == "__main__":
    sys.exit(main())

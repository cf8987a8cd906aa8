"""``python -m conformance.kept`` writes the files of this version."""

import accelerated
import reference
from conformance.kept import HERE, write

if __name__ == "__main__":
    write(HERE / reference.__version__, [reference, accelerated])

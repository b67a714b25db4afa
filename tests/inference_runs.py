"""Several runs of payloads/loadgen.py in one process, so that torch is imported once.

python inference_runs.py PAYLOADS FOLDER…     each folder: argv.json in; rank-0.log, and LoadGen's logs out
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import loadgen  # type: ignore[import-not-found]

for name in sys.argv[2:]:
    folder = Path(name)
    sys.argv = json.loads((folder / "argv.json").read_text())
    with contextlib.chdir(folder), Path("rank-0.log").open("w") as log, contextlib.redirect_stdout(log):
        loadgen.main()

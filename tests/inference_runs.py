"""Several runs of payloads/loadgen.py in one process, so that torch is imported once.

python inference_runs.py PAYLOADS FOLDER…     each folder: argv.json in; rank-0.log, and LoadGen's logs out
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import numpy as np

import loadgen  # type: ignore[import-not-found]


def sleeping(batch: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    time.sleep(0.002)
    return (np.zeros((len(batch[0]), 10), dtype=np.float32),)


predictors = loadgen.predictors
for name in sys.argv[2:]:
    folder = Path(name)
    loadgen.predictors = (lambda *_: [sleeping]) if folder.name.startswith("sleeping") else predictors
    sys.argv = json.loads((folder / "argv.json").read_text())
    with contextlib.chdir(folder), Path("rank-0.log").open("w") as log, contextlib.redirect_stdout(log):
        loadgen.main()

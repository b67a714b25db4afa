"""Several runs of loadgen.py in one process, so that torch is imported once.

python inference_runs.py FOLDER…     each folder: argv.json in; rank-0.log, and LoadGen's logs out

A network that was exported to ONNX is not exported again, and ResNet-34 has fewer blocks: both are for speed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from assay_payloads.inference import loadgen, loadgen_backends, loadgen_models

export = loadgen_backends.export
exported: dict[tuple[Any, ...], Path] = {}


def sleeping(batch: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    time.sleep(0.002)
    return list(np.zeros((len(batch[0]), 1), dtype=np.int64))


def once(network: Any, model: Any, size: int, kind: Any) -> None:
    weights = tuple(float(one.double().sum()) for one in network.parameters())
    there = exported.setdefault((size, kind, weights), Path.cwd())
    if there == Path.cwd():
        export(network, model, size, kind)
    else:
        for path in there.glob("model.onnx*"):
            shutil.copy(path, ".")


loadgen_models.RESNET34, loadgen_backends.export = (1, 1, 1), once

predictors = loadgen.predictors
for name in sys.argv[1:]:
    folder = Path(name)
    loadgen.predictors = (lambda *_: [sleeping]) if folder.name.startswith("sleeping") else predictors
    sys.argv = json.loads((folder / "argv.json").read_text())
    with contextlib.chdir(folder), Path("rank-0.log").open("w") as log, contextlib.redirect_stdout(log):
        loadgen.main()

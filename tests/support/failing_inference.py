"""LoadGen drives our system under test on a backend that fails at its 20th batch.

python failing_inference.py SCENARIO FAILURE
"""

from __future__ import annotations

import sys

import mlperf_loadgen as lg
import numpy as np

from assay_payloads.inference.loadgen_sut import Library, SystemUnderTest

scenario, failure = sys.argv[1:]
calls = 0


def predict(batch: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    global calls
    calls += 1
    if calls == 20:
        raise {"MemoryError": MemoryError, "RuntimeError": RuntimeError}[failure]("the device is gone")
    return list(batch[0])


library = Library(8, lambda index: (np.zeros(index + 1 if failure == "ragged" else 1),))
sut = SystemUnderTest(
    [predict],
    lambda answer, _index: answer,
    library,
    batch_size=4,
    max_wait_s=0.0,
    queued=scenario in ("Server", "Offline"),
)
settings = lg.TestSettings()
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.PerformanceOnly
settings.min_duration_ms, settings.min_query_count = 1000, 100
settings.server_target_qps = settings.offline_expected_qps = 1000
qsl = lg.ConstructQSL(8, 8, library.load, library.unload)
lg.StartTestWithLogSettings(lg.ConstructSUT(sut.issue, sut.flush), qsl, settings, lg.LogSettings())

"""A tiny system under test for LoadGen: sleeps, answers, and leaves LoadGen's real logs behind."""

from __future__ import annotations

import array
import sys
import time
from typing import Any

import mlperf_loadgen as lg

scenario, folder, mode, min_duration_ms, min_queries, expected_qps, seed, tokens = sys.argv[1:9]
answer = array.array("B", [0] * 4)
address, size = answer.buffer_info()


def responses(samples: list[Any]) -> list[Any]:
    if tokens == "yes":
        return [lg.QuerySampleResponse(sample.id, address, size, 5) for sample in samples]
    return [lg.QuerySampleResponse(sample.id, address, size) for sample in samples]


def issue(samples: list[Any]) -> None:
    if tokens == "yes":
        lg.FirstTokenComplete(responses(samples))
    time.sleep(0.1 if len(samples) > 8 else 0.0005)  # Offline is one query, and has to last
    lg.QuerySamplesComplete(responses(samples))


sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(64, 64, lambda _samples: None, lambda _samples: None)
settings = lg.TestSettings()
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = getattr(lg.TestMode, mode)
settings.min_duration_ms = int(min_duration_ms)
settings.min_query_count = int(min_queries)
settings.offline_expected_qps = settings.server_target_qps = float(expected_qps)
settings.server_target_latency_ns = 5_000_000_000  # no busy machine is to make it INVALID
settings.multi_stream_expected_latency_ns = 100_000
settings.single_stream_expected_latency_ns = 100_000
settings.use_token_latencies = tokens == "yes"
settings.ttft_latency = settings.tpot_latency = 5_000_000_000
settings.qsl_rng_seed = settings.sample_index_rng_seed = settings.schedule_rng_seed = int(seed)
output = lg.LogOutputSettings()
output.outdir = folder
logging = lg.LogSettings()
logging.log_output = output
logging.enable_trace = False
lg.StartTestWithLogSettings(sut, qsl, settings, logging)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)

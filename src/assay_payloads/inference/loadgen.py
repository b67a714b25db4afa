"""MLPerf Inference: a model on a backend, driven by LoadGen in one of its four scenarios.

    python -m assay_payloads.inference.loadgen --model mobilenet --scenario SingleStream --min-duration-s 10
    python -m assay_payloads.inference.loadgen --model resnet50 --scenario Server --batch-size 32 \\
        --max-wait-s 0.002 --device cuda

LoadGen's own logs are in the working directory. What its detail log states is also printed, under LoadGen's
keys, since a log can be collected from everywhere. The log's reader decides whether the run is VALID: here,
an INVALID run ends like any other.

Without `--target-qps`, Server's rate is searched for: the highest at which a run of `--search-s` is VALID,
then a full run at that rate, and lower rates while that is INVALID. Offline's expected rate is measured
first, and raised while the run ends too early. The logs of the search are in search-01, search-02, …
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg
import numpy as np

from assay_payloads.inference.loadgen_accuracy import accuracy, answered
from assay_payloads.inference.loadgen_backends import TYPES, batch_sizes, predictors
from assay_payloads.inference.loadgen_data import labeled
from assay_payloads.inference.loadgen_detectors import logged
from assay_payloads.inference.loadgen_models import MODELS
from assay_payloads.inference.loadgen_samples import Arrays
from assay_payloads.inference.loadgen_sut import Library, Predict, RunAbort, SystemUnderTest
from assay_payloads.measuring.rank import Rank
from assay_payloads.measuring.service_level import highest

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
QUEUED = ("Server", "Offline")
# For early stopping; in Offline, where one query has all samples, the number that the rules require.
LEAST_QUERIES = {"SingleStream": 100, "MultiStream": 662, "Server": 662, "Offline": 24_576}
STATED = ("effective_", "result_", "early_stopping_", "num_", "loadgen_version", "error_", "generated_")
CONDITIONS = (
    "result_perf_constraints_met",
    "result_min_duration_met",
    "result_min_queries_met",
    "early_stopping_met",
)
LOGS = ("summary.txt", "detail.txt", "accuracy.json", "trace.json")
MOST_STEPS, MOST_TRIES = 20, 6
PILOT_S = 0.5


@dataclass(frozen=True)
class Pilot:
    """The warm-up's result: seconds of a sample alone, and samples/s in full batches on all instances."""

    alone_s: float
    rate: float


class Bench:
    """LoadGen and what it drives; it can be started several times."""

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        self.rank, self.options, self.model = rank, options, MODELS[options.model]
        self.size: int = options.size or self.model.size
        self.data = None if options.data is None else labeled(options.data, self.size)
        self.categories = () if self.data is None else self.data.categories
        if self.data is not None and self.data.answer_kind != self.model.says:
            raise ValueError(
                f"{options.data}: requires {self.data.answer_kind}, but {options.model} answers with "
                f"{self.model.says}"
            )
        self.library = Library(options.samples if self.data is None else self.data.count, self._sample)
        labels = self.model.labels_for(self.categories)
        self.predict = predictors(self.model, self.size, labels, options, rank.device)
        self.sut = SystemUnderTest(
            self.predict,
            self._kept,
            self.library,
            batch_size=options.batch_size,
            max_wait_s=options.max_wait_s,
            queued=options.scenario in QUEUED,
        )
        self.steps = 0

    def _sample(self, index: int) -> Arrays:
        if self.data is not None:
            return self.data.read(index)
        return self.model.synthetic(np.random.default_rng([self.options.seed, index]), self.size)

    def _kept(self, answer: np.ndarray, index: int) -> np.ndarray:
        if not self.model.labels:
            return answer
        return logged(answer, index, self.categories if self.model.numbered else ())

    def warm_up(self) -> Pilot:
        """Run every frequent batch size, then measure how fast one sample and full batches are."""
        largest = self.options.batch_size
        some = range(min(self.library.count, largest))
        self.library.load(some)
        with RunAbort(f"warming up batches of up to {largest} samples on {self.rank.device}"):
            batches = [
                self.library.batch([index % len(some) for index in range(size)])
                for size in batch_sizes(largest)
            ]
            distinct = list(dict.fromkeys(self.predict))
            for predict in distinct:
                for batch in batches * self.options.warmup:
                    predict(batch)
            alone = [_seconds(self.predict[0], batches[0]) for _ in range(5)]
            whole, until = [_seconds(self.predict[0], batches[-1])], time.perf_counter() + PILOT_S
            while time.perf_counter() < until:
                whole.append(_seconds(self.predict[0], batches[-1]))
        self.library.unload(some)
        return Pilot(min(alone), largest / statistics.median(whole) * len(distinct))

    def run(self, pilot: Pilot, qps: float | None, duration_s: float, mode: str) -> dict[str, Any]:
        """One run of LoadGen, with logs in the working directory; returns what its detail log states."""
        logs = lg.LogSettings()
        output = lg.LogOutputSettings()
        output.outdir, logs.enable_trace = ".", self.options.trace
        logs.log_output = output
        before = self.sut.batches, self.sut.samples
        sut = lg.ConstructSUT(self.sut.issue, self.sut.flush)
        count = self.library.count
        held = count if self.data is None else min(count, self.model.held)
        library = lg.ConstructQSL(count, held, self.library.load, self.library.unload)
        lg.StartTestWithLogSettings(sut, library, self._settings(pilot, qps, duration_s, mode), logs)
        lg.DestroyQSL(library)
        lg.DestroySUT(sut)
        batches, samples = self.sut.batches - before[0], self.sut.samples - before[1]
        return stated(Path("mlperf_log_detail.txt")) | {"mean_batch": samples / batches}

    def _settings(self, pilot: Pilot, qps: float | None, duration_s: float, mode: str) -> Any:
        options, settings = self.options, lg.TestSettings()
        settings.scenario = getattr(lg.TestScenario, options.scenario)
        settings.mode = getattr(lg.TestMode, mode)
        settings.min_duration_ms = round(duration_s * 1000)
        settings.min_query_count = options.min_queries or LEAST_QUERIES[options.scenario]
        # LoadGen draws as many queries in advance as it expects to send; they must not run out.
        expected_ns = max(1, round(pilot.alone_s * 1e9 / 2))
        settings.single_stream_expected_latency_ns = settings.multi_stream_expected_latency_ns = expected_ns
        settings.server_target_latency_ns = round(bound_s(options) * 1e9)
        if qps is not None:
            settings.server_target_qps = settings.offline_expected_qps = qps
        own = np.random.SeedSequence(options.seed).generate_state(3, np.uint64).tolist()
        seeds = round_seeds() if options.seeds == "round" else own
        settings.qsl_rng_seed, settings.sample_index_rng_seed, settings.schedule_rng_seed = seeds
        return settings

    def set_aside(self, results: dict[str, Any], qps: float, duration_s: float) -> bool:
        """Keep the logs of a search step, print its outcome, and return whether it was VALID."""
        self.steps += 1
        folder = Path(f"search-{self.steps:02}")
        folder.mkdir()
        for name in LOGS:
            Path(f"mlperf_log_{name}").rename(folder / f"mlperf_log_{name}")
        valid: bool = results["result_validity"] == "VALID"
        unmet = ", ".join(key for key in CONDITIONS if results.get(key) is False)
        went = "VALID" if valid else f"{results['result_validity']} ({unmet or 'no reason is stated'})"
        self.rank.log(f"search_{self.steps:02}", f"{qps:.6g} queries/s for {duration_s:g} s: {went}")
        rates = {"target_qps": qps}
        if valid and "result_completed_samples_per_sec" in results:
            rates["throughput"] = results["result_completed_samples_per_sec"]
        self.rank.log("tracked_stats", rates, step=self.steps)
        return valid


def _seconds(predict: Predict, batch: Arrays) -> float:
    start = time.perf_counter()
    predict(batch)
    return time.perf_counter() - start


def stated(detail: Path) -> dict[str, Any]:
    """Results and effective settings of a detail log, by LoadGen's keys."""
    stated_values: dict[str, Any] = {}
    for line in detail.read_text(errors="replace").splitlines():
        _, token, text = line.partition(":::MLLOG ")
        entry: dict[str, Any] = json.loads(text) if token else {"key": ""}
        if entry["key"].startswith(STATED) and not isinstance(entry["value"], list | dict):
            stated_values[entry["key"]] = entry["value"]
    return stated_values


@cache
def round_seeds() -> tuple[int, int, int]:
    """The round's seeds (qsl, sample index, schedule) from LoadGen's own mlperf.conf.

    LoadGen applies that file only to the first settings of a process, so these are read once.
    """
    official = lg.TestSettings()
    official.FromConfig(os.devnull, "resnet50", "Server")
    return official.qsl_rng_seed, official.sample_index_rng_seed, official.schedule_rng_seed


def bound_s(options: argparse.Namespace) -> float:
    """Server's latency bound, seconds."""
    return float(options.latency_bound_s or MODELS[options.model].bound_s)


def measure(bench: Bench, pilot: Pilot) -> dict[str, Any]:
    """The run that counts, after the search for its rate."""
    options = bench.options
    if options.mode == "accuracy":
        return bench.run(pilot, options.target_qps or pilot.rate / 2, options.min_duration_s, "AccuracyOnly")
    if options.target_qps is None and options.scenario == "Offline":
        return whole_offline(bench, pilot)
    if options.target_qps is None and options.scenario == "Server":
        return highest_server(bench, pilot)
    return bench.run(pilot, options.target_qps, options.min_duration_s, "PerformanceOnly")


def whole_offline(bench: Bench, pilot: Pilot) -> dict[str, Any]:
    """Offline at an expected rate that makes it long enough: the rate sets the samples of the one query."""
    rate, duration_s = pilot.rate, bench.options.min_duration_s
    for left in reversed(range(MOST_TRIES)):
        results = bench.run(pilot, rate, duration_s, "PerformanceOnly")
        if results["result_min_duration_met"] or not left:
            break
        bench.set_aside(results, rate, duration_s)
        rate = 1.1 * max(rate, results["result_samples_per_second"])
    return results


def highest_server(bench: Bench, pilot: Pilot) -> dict[str, Any]:
    """Server at the highest VALID rate: found with short runs, confirmed by a full run."""
    options = bench.options

    def holds(qps: float) -> bool:
        results = bench.run(pilot, qps, options.search_s, "PerformanceOnly")
        return bench.set_aside(results, qps, options.search_s)

    advice = (
        f"latency bound {bound_s(options):g} s, one sample alone takes {pilot.alone_s:.4g} s: raise the bound"
    )
    if pilot.alone_s >= bound_s(options):
        bench.rank.fail(f"no rate can be VALID; {advice}")
    share = options.search_resolution
    rate = highest(holds, pilot.rate / 2, within=share, most_steps=MOST_STEPS)
    if rate is None:
        bench.rank.fail(f"none of {MOST_STEPS} rates was VALID (see search-*); {advice}")
    for left in reversed(range(MOST_TRIES)):
        results = bench.run(pilot, rate, options.min_duration_s, "PerformanceOnly")
        if results["result_validity"] == "VALID" or not left:
            break
        bench.set_aside(results, rate, options.min_duration_s)
        rate /= 1 + share
    return results


def state(bench: Bench) -> None:
    """Print what defines the work, besides the machine, the libraries, and LoadGen's settings."""
    options, log = bench.options, bench.rank.log
    for name in (
        "model",
        "precision",
        "batch_size",
        "max_wait_s",
        "instances",
        "channels_last",
        "compile",
        "seed",
    ):
        log(name, getattr(options, name))
    log("framework", options.backend)
    log("searched", options.scenario == "Server" and options.target_qps is None)
    log("image_size" if "images" in bench.model.inputs else "sequence_length", bench.size)
    log("samples", bench.library.count)
    log("data", "synthetic" if options.data is None else options.data.name)
    log("weights", "random" if options.weights is None else options.weights.name)


def parsed() -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", choices=MODELS, default="resnet50")
    add("--scenario", choices=SCENARIOS, default="SingleStream")
    add("--backend", choices=["torch", "onnxruntime"], default="torch")
    add("--mode", choices=["performance", "accuracy"], default="performance")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--precision", choices=TYPES, default="fp32")
    add("--size", type=int, help="height and width of an image, or tokens; default: the model's")
    add("--batch-size", type=int, default=1, help="maximum samples in a batch")
    add("--max-wait-s", type=float, default=0.0, help="Server: how long a batch waits for more samples")
    add(
        "--instances", type=int, default=1, help="batches that run concurrently; spread over the visible GPUs"
    )
    add("--compile", action=argparse.BooleanOptionalAction, default=False, help="torch.compile")
    add("--channels-last", action=argparse.BooleanOptionalAction, default=True, help="NHWC layout for images")
    add("--warmup", type=int, default=3, help="runs of each batch size before LoadGen starts")
    add("--samples", type=int, default=64, help="synthetic samples in the library")
    add("--data", type=Path, help="folders of classes, .npz, COCO or SQuAD; default: synthetic")
    add("--weights", type=Path, help="file of the library's state_dict; default: random")
    add("--target-qps", type=float, help="Server: rate sent; Offline: rate expected; default: searched")
    add(
        "--latency-bound-s",
        type=float,
        help="latency bound of Server, at the 99th percentile; default: the rules'",
    )
    add("--min-duration-s", type=float, default=600.0)
    add("--min-queries", type=int, help="Offline: samples; default: early stopping's, the rules'")
    add("--search-s", type=float, default=60.0, help="duration of each search step")
    add("--search-resolution", type=float, default=0.02, help="relative precision of the rate that is found")
    add(
        "--seeds",
        choices=["repeat", "round"],
        default="repeat",
        help="LoadGen's seeds: from --seed, or the round's",
    )
    add(
        "--trace", action=argparse.BooleanOptionalAction, default=False, help="LoadGen's trace of every query"
    )
    add("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.batch_size, options.instances, options.warmup, options.samples) < 1:
        parser.error("--batch-size, --instances, --warmup, and --samples must be at least 1")
    if options.target_qps is not None and options.scenario not in QUEUED:
        parser.error(
            f"--target-qps: {options.scenario} sends queries as fast as they are answered; remove it"
        )
    if options.mode == "accuracy" and options.data is None:
        parser.error("--mode accuracy needs --data with labels")
    if options.backend == "onnxruntime" and (options.compile or options.precision == "bf16"):
        parser.error("--backend onnxruntime supports neither --compile nor bf16")
    return options


def main() -> None:
    """Read the command line, warm up, let LoadGen measure, and print what it states."""
    options = parsed()
    rank = Rank()
    if rank.size > 1:
        rank.fail(f"LoadGen drives one process, but found {rank.size} ranks: use shape 1x1, and --instances")
    rank.join(options.device)
    try:
        bench = Bench(rank, options)
    except (OSError, ValueError, RuntimeError, ImportError) as error:  # from data, weights, backend
        rank.fail(str(error))
    state(bench)
    results = measure(bench, bench.warm_up())
    for key, value in results.items():
        rank.log(key, value)
    if options.mode == "accuracy" and bench.data is not None:
        try:
            worth = accuracy(answered(Path("mlperf_log_accuracy.json")), bench.data)
        except (OSError, ValueError) as error:
            rank.fail(str(error))
        rank.log("accuracy", worth, unit="", labels={})
    rank.leave()


if __name__ == "__main__":
    main()

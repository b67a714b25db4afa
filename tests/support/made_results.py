"""Results that look like an afternoon's runs, made from a seed: for tests of what comes after reading.

plan, results = quickstart()                        an A/A check: two systems, no difference
plan, results = quickstart(ratios={"there": 0.9})   a system that is a tenth slower
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.records import (
    Expectation,
    Measurement,
    Metric,
    Plan,
    Provenance,
    RankExit,
    Reading,
    Result,
    Run,
    RunState,
    Scalar,
    Series,
    Shape,
    TrainingRun,
    Trial,
)

SUITE = "quickstart"
SESSION = "20260301-101500"
STARTED_AT = 1772360100.0
ONE, TWO = Shape(1, 1), Shape(2, 1)
BENCHMARKS = ("resnet50", "digits", "matmul")


def quickstart(
    systems: Sequence[str] = ("here", "here-again"),
    shapes: Sequence[Shape] = (ONE, TWO),
    benchmarks: Sequence[str] = BENCHMARKS,
    blocks: int = 4,
    ratios: Mapping[str, float] | None = None,
    seed: int = 1,
) -> tuple[Plan, list[Result]]:
    """A plan and one result a trial; `ratios` multiplies a system's speed; baseline first."""
    dice = random.Random(seed)
    trials = [
        _trial(benchmark, system, shape, block, several=len(systems) > 1)
        for block in range(1, blocks + 1)
        for benchmark in benchmarks
        for shape in shapes
        for system in systems
    ]
    plan = Plan(
        suite=SUITE,
        suite_digest="5f2c9a0b7d3e1846",
        digest="c0ffee0123456789",
        seed=seed,
        repeats=blocks,
        systems=tuple(systems),
        baseline=systems[0],
        margin=0.02,
        interleaved=True,
        primary_metric={b: {"digits": "time_to_train"}.get(b, "throughput") for b in benchmarks},
        expectations={
            "resnet50": (Expectation("throughput", ">=", 20.0, "images/s", ">= 20 images/s"),),
            "matmul": (Expectation("throughput", ">=", 120e9, "FLOP/s", ">= 120 GFLOP/s"),),
        },
        trials=tuple(trials),
    )
    speeds = dict.fromkeys(systems, 1.0) | dict(ratios or {})
    return plan, [_result(trial, plan, speeds[trial.system], dice) for trial in trials]


def nightly(levels: Sequence[float], system: str = "here") -> list[Result]:
    """One session a night of three ResNet-50 runs, as fast as that night's level says."""
    results = []
    for night, level in enumerate(levels):
        _, of_night = quickstart(
            (system,), (ONE,), ("resnet50",), blocks=3, ratios={system: level}, seed=100 + night
        )
        session, at = f"night-{night:02}", STARTED_AT + 86400.0 * night
        results += [replace(r, run=replace(r.run, session=session, created_at=at)) for r in of_night]
    return results


def failed(result: Result, cause: str = "rank 1 exited 1: CUDA out of memory", exit_code: int = 1) -> Result:
    """The same run, had it failed: no measurement, a cause and a rank's end."""
    run = replace(
        result.run, state=RunState.FAILED, cause=cause, exits=(RankExit(1, exit_code, None, first=True),)
    )
    return Result(run, Reading(), result.provenance)


def all_reduce(systems: Sequence[str] = ("here", "there"), blocks: int = 3, seed: int = 1) -> list[Result]:
    """Bus bandwidth over payload sizes on two workers: a curve over a label."""
    dice = random.Random(seed)
    results = []
    for block in range(1, blocks + 1):
        for system in systems:
            trial = _trial("allreduce", system, TWO, block, several=True)
            found = [
                Measurement(
                    "busbw",
                    5e9 * size / (size + 2**20) * dice.lognormvariate(0, 0.02),
                    "B/s",
                    {"payload_bytes": size},
                    "rank-0.log",
                    10 + line,
                )
                for line, size in enumerate(4**k for k in range(5, 14))
            ]
            results.append(Result(_run(trial), Reading(tuple(found)), _provenance(system)))
    return results


def _trial(benchmark: str, system: str, shape: Shape, block: int, *, several: bool) -> Trial:
    tail = f"-{system}" if several else ""
    return Trial(
        id=f"{benchmark}-{shape}{tail}-r{block:02d}",
        suite=SUITE,
        benchmark=benchmark,
        workload=benchmark,
        system=system,
        shape=shape,
        params={"batch_size": 16, "precision": "fp32"},
        varied={},
        block=block,
        seed=1000 + block,
        timeout_s=600.0,
        retries=1,
        digest=f"{benchmark}-{shape}-{system}",
    )


def _run(trial: Trial, number: int = 0) -> Run:
    started = STARTED_AT + number
    return Run(
        schema=1,
        assay_version="0.1.0",
        id=f"{SUITE}/{SESSION}/{trial.id}",
        suite=SUITE,
        suite_digest="5f2c9a0b7d3e1846",
        plan_digest="c0ffee0123456789",
        session=SESSION,
        interleaved=True,
        trial=trial,
        attempt=1,
        token=f"t-{trial.id}",
        state=RunState.FINISHED,
        created_at=started,
        started_at=started,
        ended_at=started + 9.0,
        exits=tuple(RankExit(rank, 0) for rank in range(trial.shape.ranks)),
    )


def _result(trial: Trial, plan: Plan, speed: float, dice: random.Random) -> Result:
    run = replace(_run(trial, number=10 * plan.trials.index(trial)), plan_digest=plan.digest)
    workers = trial.shape.ranks * (0.93 if trial.shape.ranks > 1 else 1.0)
    luck = speed * dice.lognormvariate(0, 0.008)
    reading = {"resnet50": _resnet50, "digits": _digits, "matmul": _matmul}[trial.benchmark](
        workers, luck, dice
    )
    return Result(run, reading, _provenance(trial.system))


def _resnet50(workers: float, luck: float, dice: random.Random) -> Reading:
    rate = 26.4 * workers * luck
    steps = tuple(float(s) for s in range(2, 42, 2))
    windows = tuple(rate * dice.lognormvariate(0, 0.02) for _ in steps)
    losses = tuple(6.9 - 0.02 * s + dice.gauss(0, 0.05) for s in steps)
    return Reading(
        measurements=(Measurement("throughput", rate, "images/s", {}, "rank-0.log", 31),),
        series=(
            Series("throughput", "images/s", "step", steps, windows),
            Series("loss", "", "step", steps, losses),
        ),
        facts={"global_batch_size": 16, "precision": "fp32", "device": "cpu"},
    )


def _digits(workers: float, luck: float, dice: random.Random) -> Reading:
    epochs = dice.choice((5.0, 6.0, 6.0, 7.0))
    seconds = epochs * 1.1 / (workers * luck)
    grid = tuple(float(e) for e in range(1, int(epochs) + 1))
    accuracy = tuple(1 - 0.5 * 0.62**e + dice.gauss(0, 0.004) for e in grid)
    training = TrainingRun(
        file="rank-0.log",
        status="success",
        problem="",
        benchmark="digits",
        round=None,
        minutes=seconds / 60,
        init_minutes=0.01,
        epochs=epochs,
        samples=epochs * 1437,
        global_batch_size=32,
        train_samples=1437,
        evaluations=tuple(zip(grid, accuracy, strict=True)),
        hyperparameters={"seed": 1},
    )
    return Reading(
        measurements=(
            Measurement("time_to_train", seconds, "s", {}, "rank-0.log", 88),
            Measurement("epochs", epochs, "epochs", {}, "rank-0.log", 88),
        ),
        series=(Series("accuracy", "", "epoch", grid, accuracy),),
        training=training,
    )


def _matmul(workers: float, luck: float, dice: random.Random) -> Reading:
    return Reading(
        measurements=tuple(
            Measurement(
                "throughput",
                peak * workers * luck * dice.lognormvariate(0, 0.004),
                "FLOP/s",
                {"size": size},
                "rank-0.log",
                12 + line,
            )
            for line, (size, peak) in enumerate(((512, 92e9), (1024, 118e9), (2048, 131e9)))
        ),
        facts={"dtype": "fp32"},
    )


def _provenance(system: str) -> Provenance:
    table: dict[str, Scalar] = {
        "cpu.model": "AMD EPYC 7763 64-Core Processor",
        "cpu.cores_allowed": 2,
        "memory.total_bytes": 8_589_934_592,
        "os.name": "Debian GNU/Linux 12",
        "kernel.release": "6.1.0-18-amd64",
        "python.version": "3.11.2",
        "python.torch": "2.8.0+cpu",
        "env.OMP_NUM_THREADS": "1",
        "host.name": f"node-{system}",
    }
    return Provenance((table,))


_METRICS = {
    "resnet50": (Metric("throughput", "images/s", "higher", "images a second"),),
    "digits": (
        Metric("time_to_train", "s", "lower", "time to the target"),
        Metric("epochs", "epochs", None, "epochs to the target", scales=False),
    ),
    "matmul": (Metric("throughput", "FLOP/s", "higher", "operations a second"),),
    "allreduce": (Metric("busbw", "B/s", "higher", "bus bandwidth", scales=False),),
}


def metrics(run: Run) -> Mapping[str, Metric]:
    """What the workloads of these results declare."""
    return {metric.name: metric for metric in _METRICS[run.trial.workload]}


def by_system(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results under their systems' names, in the order met."""
    sides: dict[str, list[Result]] = {}
    for result in results:
        sides.setdefault(result.run.trial.system, []).append(result)
    return sides

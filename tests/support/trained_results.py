"""Results of trainings with known lengths and speeds, as reading their logs would have made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay import read
from assay.questions.import_ import import_
from assay.records import (
    Provenance,
    Reading,
    Result,
    Run,
    RunState,
    Scalar,
    Shape,
    TrainingPhases,
    TrainingRun,
    Trial,
)


def trained(
    lengths: Sequence[float],
    paces: Sequence[float],
    *,
    system: str = "here",
    shape: str = "1x8",
    benchmark: str = "resnet",
    converged: Sequence[bool] = (),
    batch: int | None = 256,
    samples: int | None = 1000,
    grid: float = 1.0,
    session: str = "20260301-101500",
    facts: Mapping[str, Scalar] | None = None,
    machine: Mapping[str, Scalar] | None = None,
    round_: str | None = "v3.1",
) -> list[Result]:
    """One result a length; `paces` are minutes an epoch, an evaluation takes a tenth of it."""
    results = []
    for at, (length, pace) in enumerate(zip(lengths, paces, strict=True)):
        succeeded = converged[at] if converged else True
        phases = TrainingPhases(
            start_minutes=0.5 * pace,
            training_minutes=length * pace,
            evaluation_minutes=0.1 * length / grid * pace,
            rest_minutes=0.1,
            overlap_minutes=0.0,
            evaluations=round(length / grid),
            epochs=length,
            samples=None if samples is None else length * samples,
        )
        run = TrainingRun(
            file=f"result_{at}.txt",
            status="success" if succeeded else "aborted",
            problem="" if succeeded else "run_stop says aborted",
            benchmark=benchmark,
            round=round_,
            minutes=phases.minutes if succeeded else None,
            init_minutes=0.2,
            epochs=length if succeeded else None,
            samples=None,
            global_batch_size=batch,
            train_samples=samples,
            data_set_samples=samples,
            evaluations=((length - grid, 0.5), (length, 0.6)),
            hyperparameters={"opt_name": "lars", "seed": at, **(facts or {})},
            phases=phases,
        )
        problems = (run.problem,) if run.problem else ()
        provenance = Provenance((dict(machine),)) if machine else None
        reading = Reading(problems=problems, training=run)
        results.append(Result(_run(benchmark, system, shape, session, at, succeeded), reading, provenance))
    return results


def imported(root: Path, name: str, logs: Path) -> list[Result]:
    """What `assay import` makes of real logs, read back."""
    [kept] = import_(logs, name=name, runs=root).sessions
    return [read.result(attempt) for attempt in kept.session.last_attempts().values()]


def _run(benchmark: str, system: str, shape: str, session: str, at: int, succeeded: bool) -> Run:
    trial = Trial(
        id=f"{benchmark}-{shape}-{system}-r{at:02}",
        suite=system,
        benchmark=benchmark,
        workload="mlperf",
        system=system,
        shape=Shape.parse(shape),
        params={},
        varied={},
        block=at + 1,
        seed=at,
        timeout_s=0.0,
        retries=0,
        digest="d",
    )
    return Run(
        schema=1,
        assay_version="0",
        id=f"{system}/{session}/{trial.id}",
        suite=system,
        suite_digest="s",
        plan_digest="p",
        session=session,
        interleaved=False,
        trial=trial,
        attempt=1,
        token=f"{system}{at}",
        state=RunState.FINISHED if succeeded else RunState.FAILED,
        created_at=0.0,
        cause="" if succeeded else "run_stop says aborted",
    )

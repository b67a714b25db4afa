"""Results with stated values, for tests of what is made of them: everything equal but what a test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.records import (
    Better,
    Measurement,
    Metric,
    Provenance,
    Reading,
    Result,
    Run,
    RunState,
    Scalar,
    Shape,
    Trial,
)


def result(
    value: float | None = 100.0,
    *,
    system: str = "a",
    block: int = 1,
    session: str = "2026-03-01T100000Z",
    suite: str = "suite",
    suite_digest: str = "same",
    interleaved: bool = True,
    benchmark: str = "train",
    shape: str = "1x1",
    metric: str = "throughput",
    unit: str = "images/s",
    labels: Mapping[str, Scalar] | None = None,
    varied: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    state: RunState = RunState.FINISHED,
    cause: str = "",
    problems: Sequence[str] = (),
    facts: Mapping[str, Scalar] | None = None,
    source: str | None = None,
    looks: tuple[int, ...] = (),
    created_at: float = 1_772_360_000.0,
    more: Sequence[Measurement] = (),
) -> Result:
    """One run that printed one value, or nothing where it is None."""
    trial = Trial(
        id=f"{benchmark}-{shape}-{system}-r{block:02d}" + "".join(f"-{v}" for v in (varied or {}).values()),
        suite=suite,
        benchmark=benchmark,
        workload="train",
        system=system,
        shape=Shape.parse(shape),
        params={"batch_size": 32} if params is None else params,
        varied=varied or {},
        block=block,
        seed=block,
        timeout_s=60.0,
        retries=0,
        digest=f"{benchmark}-{shape}-{system}-{params}",
    )
    run = Run(
        schema=1,
        assay_version="0",
        id=f"{suite}/{session}/{trial.id}",
        suite=suite,
        suite_digest=suite_digest,
        plan_digest="plan",
        session=session,
        interleaved=interleaved,
        looks=looks,
        trial=trial,
        attempt=1,
        token="token",
        state=state,
        created_at=created_at + block,
        started_at=None if source else created_at + block,
        ended_at=None if source else created_at + block + 10,
        cause=cause,
        source=source,
    )
    own = [] if value is None else [Measurement(metric, value, unit, labels or {}, "rank-0.log", 7)]
    provenance = None if facts is None else Provenance((facts,))
    return Result(run, Reading((*own, *more), problems=tuple(problems)), provenance)


def side(values: Sequence[float | None], *, system: str = "a", **same: Any) -> list[Result]:
    """Runs of one system, a value each, in blocks from 1."""
    return [result(value, system=system, block=block, **same) for block, value in enumerate(values, start=1)]


def metrics(better: Better | None = "higher", *, scales: bool = True) -> Any:
    """What the workload of these runs declares."""
    table = {"throughput": Metric("throughput", "images/s", better, "speed", scales)}
    return lambda _run: table

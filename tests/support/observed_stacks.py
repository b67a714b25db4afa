"""Runs of software stacks over several sessions, made from a seed, with known speeds.

results(SOFTWARE, speeds={"new": 1.04}, sessions=3)    the stack `new` is 4 % faster than `old`
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from assay.records import (
    Extent,
    JobState,
    Measurement,
    Provenance,
    RankExit,
    Reading,
    Result,
    Run,
    RunState,
    Scalar,
    Shape,
    Trial,
)
from assay.workloads import WORKLOADS

STARTED_AT = 1772360100.0
DAY_S = 86400.0
MACHINE: dict[str, Scalar] = {
    "probe.version": 2,
    "host": "secret-host.example.org",
    "os": "Debian GNU/Linux 12 (bookworm)",
    "libc": "glibc 2.36",
    "kernel": "6.1.0-18-amd64",
    "kernel.architecture": "x86_64",
    "cpu.model": "AMD EPYC 7763 64-Core Processor",
    "cpu.isa": "avx avx2 fma",
    "cpu.allowed": 8,
    "python.version": "3.11.7",
    "python.implementation": "cpython",
    "python.executable": "/home/alice/env/bin/python",
}
OLD = {"package.torch": "2.8.0", "package.numpy": "2.3.0", "package.nvidia-nccl-cu12": "2.27.3"}
NEW = {"package.torch": "2.9.0", "package.numpy": "2.3.0", "package.nvidia-nccl-cu12": "2.27.5"}


def results(
    software: Mapping[str, Mapping[str, Scalar]] | None = None,
    *,
    speeds: Mapping[str, float] | None = None,
    sessions: int = 3,
    blocks: int = 3,
    spread: float = 0.005,
    session_spread: float = 0.02,
    stack_session_spread: float = 0.002,
    interleaved: bool = True,
    suite: str = "stacks",
    seed: int = 1,
    workload: str = "matmul",
) -> list[Result]:
    """One run of each stack in each block of each session.

    software  stack → its facts, in addition to the machine's
    speeds    stack → its factor on the speed; 1 by default
    spread    standard deviation of the logarithm from run to run, from session to session for all stacks, and
              from session to session for each stack on its own
    workload  matmul, or indicators: its indicator matmul
    """
    dice = random.Random(seed)
    chosen = software or {"old": OLD, "new": NEW}
    made = []
    for number in range(sessions):
        day = dice.gauss(0, session_spread)
        own = {name: dice.gauss(0, stack_session_spread) for name in chosen}
        for block in range(1, blocks + 1):
            for name, facts in chosen.items():
                speed = (speeds or {}).get(name, 1.0)
                value = 1e11 * speed * 2.718281828 ** (day + own[name] + dice.gauss(0, spread))
                run = run_of(name, number, block, suite, interleaved=interleaved, workload=workload)
                figure = _figure(value, workload)
                made.append(Result(run, Reading((figure,)), Provenance(({**MACHINE, **facts},))))
    return made


def _figure(flop_rate: float, workload: str) -> Measurement:
    if workload == "indicators":
        labels = {"indicator": "matmul", "dtype": "fp32"}
        return Measurement("step_time", 1e8 / flop_rate, "s", labels, "rank-0.log", 3)
    return Measurement("flop_rate", flop_rate, "FLOP/s", {}, "rank-0.log", 3)


def run_of(
    system: str,
    session: int,
    block: int,
    suite: str = "stacks",
    *,
    interleaved: bool = True,
    workload: str = "matmul",
) -> Run:
    """A finished run of a system in a session."""
    params = WORKLOADS[workload].params().model_dump(mode="json")
    name = f"2026-03-{1 + session:02}T101500Z"
    trial = Trial(
        id=f"{workload}-1x1-{system}-r{block:02}",
        suite=suite,
        benchmark=workload,
        workload=workload,
        system=system,
        shape=Shape(1, 1),
        params=params,
        varied={},
        block=block,
        seed=block,
        timeout_s=600.0,
        retries=1,
        digest="",
    )
    at = STARTED_AT + session * DAY_S + 60.0 * block
    return Run(
        schema=1,
        assay_version="0.1.0",
        id=f"{suite}/{name}/{trial.id}",
        suite=suite,
        suite_digest="5f2c9a0b7d3e1846",
        plan_digest="c0ffee0123456789",
        session=name,
        interleaved=interleaved,
        trial=trial,
        attempt=1,
        token=f"t-{system}-{session}-{block}",
        state=RunState.FINISHED,
        created_at=at,
        started_at=at,
        ended_at=at + 20.0,
        job=JobState.SUCCEEDED,
        exits=(RankExit(0, 0),),
    )


def failed(result: Result, cause: str, *, exit_code: int | None = 1, signal: str | None = None) -> Result:
    """The same run, had its program failed like this."""
    run = replace(
        result.run,
        state=RunState.FAILED,
        job=JobState.FAILED,
        cause=cause,
        extent=Extent.TRIAL,
        exits=(RankExit(0, exit_code, signal, first=True),),
    )
    return Result(run, Reading(), result.provenance)

"""A run of nccl-tests on the nodes: its table, and the transports that NCCL used between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assay.errors import InputError
from assay.logs.nccl_tests import figures, nccl_test
from assay.readers import exchange
from assay.readers.exchange import Operation
from assay.records import Measurement, Reading

_LOG = "rank-0.log"


def read(logs: Mapping[str, Path], operation: Operation, mode: str) -> Reading:
    """What rank 0 printed. mode: what NCCL was configured to use."""
    if _LOG not in logs:
        return Reading(problems=(f"{_LOG} does not exist: the program printed nothing",))
    try:
        test = nccl_test(logs[_LOG])
    except InputError as error:
        return Reading(problems=(str(error),))
    used = exchange.used_between_ranks(logs)
    measured = () if test.problem else tuple(figures(test))
    return Reading(
        measurements=tuple(Measurement(f.metric, f.value, f.unit, f.labels, _LOG, f.line) for f in measured),
        facts={**test.facts, "operation": operation, **exchange.transport_facts(used, mode)},
        problems=(test.problem,) if test.problem else (),
        skipped_lines=test.skipped + used.skipped,
        cut_lines=test.cut,
        links=exchange.links(used, {device.rank: device.host for device in test.devices}),
    )

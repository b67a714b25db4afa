"""Bandwidth and latency of all-reduce between all ranks."""

from __future__ import annotations

from assay.workloads import exchange
from assay.workloads.exchange import ExchangeParams, metrics
from assay.workloads.payload_log import payload_reader
from assay.workloads.workload import Workload, example


class AllreduceParams(ExchangeParams):
    """All-reduce (sum of float32) with torch.distributed or MPI, one payload size at a time.

    On two CPU cores, about 3 s: `{payload_bytes: [1024, 1048576, 16777216], min_time_s: 0.3}`.
    """

    model_config = example(payload_bytes=[1024, 1048576, 16777216], min_time_s=0.3)


ALLREDUCE = Workload(
    reader=payload_reader("allreduce", AllreduceParams, metrics("all_reduce")),
    about="sum values over all ranks: bus bandwidth and latency by payload size, results checked",
    task=exchange.task,
    timed_s=exchange.timed_s,
)

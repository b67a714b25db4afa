"""A sweep's suites with programs that start at once: arithmetic, and bytes sent to and fro between two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay import node_sweep as sweep

ARITHMETIC = """
import time
done, start = 0, time.perf_counter()
while time.perf_counter() - start < 0.6:
    done += len([at * at for at in range(10_000)])
print("rate", done / (time.perf_counter() - start))
"""
EXCHANGE = """
import os, socket, statistics, time
address, first = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), os.environ["RANK"] == "0"
if first:
    link, _ = socket.create_server(("", address[1])).accept()
while not first:
    try:
        link = socket.create_connection(address)
        break
    except OSError:  # its name, or its server, is not there yet
        time.sleep(0.05)
payload, rates = bytes(2**22), []
def send():
    link.sendall(payload)
def receive():
    left = len(payload)
    while left:
        left -= len(link.recv(min(left, 2**20)))
for _ in range(6):
    start = time.perf_counter()
    for step in (send, receive) if first else (receive, send):
        step()
    rates.append(2 * len(payload) / (time.perf_counter() - start))
if first:
    print("rate", statistics.median(rates))
"""

Suite = Callable[..., dict[str, Any]]


def put_in(patch: pytest.MonkeyPatch) -> None:
    """In the place of what nodes and pairs run, under the same names."""
    patch.setattr(sweep, "nodes_suite", _with(sweep.nodes_suite, "matmul", ARITHMETIC, "1/s"))
    patch.setattr(sweep, "pairs_suite", _with(sweep.pairs_suite, "allreduce", EXCHANGE, "B/s"))


def _with(made: Suite, name: str, code: str, unit: str) -> Suite:
    metric = {"pattern": "^rate (?P<value>[0-9.e+]+)", "unit": unit, "better": "higher"}
    params = {"argv": ["{python}", "-c", code], "metrics": {"rate": metric}}
    own = {name: {"workload": "command", "params": params}}
    return lambda *asked, **more: made(*asked, **more) | {"benchmarks": own}

"""Dumps of the real flight recorder name the rank that is missing; hostile ones run nothing."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import InputError
from assay.monitor.flight_recorder import flight_record
from command_line import assay as typed
from payload_processes import Forks, end, free_port, torchrun

PROGRAM = """
import os, pathlib, time, torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
for _ in range(20):
    dist.all_reduce(torch.ones(1000))
if rank != 1:
    waits = dist.all_reduce(torch.ones(7), async_op=True)
time.sleep(1)
pathlib.Path(f"trace_rank_{rank}").write_bytes(_dump_fr_trace())
time.sleep(2)
os._exit(0)
"""


@pytest.mark.long
@pytest.mark.torch
def test_a_dump_of_the_real_recorder_names_the_rank_that_never_came(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "dumps").mkdir()
    recorder, port = {"TORCH_FR_BUFFER_SIZE": "2000"}, free_port()
    ranks = [
        forks.start(
            ["{python}", str(tmp_path / "program.py")],
            tmp_path / "dumps",
            torchrun(rank, 3, port) | recorder,
            tmp_path / f"rank-{rank}.log",
        )
        for rank in range(3)
    ]
    assert [end(rank)[0] for rank in ranks] == [0, 0, 0]
    found = flight_record(tmp_path / "dumps")
    (stop,) = found.stops
    assert (found.ranks, stop.number, stop.waiting, stop.missing) == ((0, 1, 2), 21, (0, 2), (1,))
    assert stop.name == "gloo:all_reduce of 7"
    assert not found.timed
    said = typed(tmp_path, "watch", "--flight-recorder", "dumps")
    assert said.returncode == 1
    assert "rank 1 has not reached collective 21 (gloo:all_reduce of 7)" in said.stdout
    assert "0, 2 wait in it" in said.stdout


def entry(number: int, created_s: float, **changes: Any) -> dict[str, Any]:
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[8]],
        "state": "completed",
        "retired": True,
        "time_created_ns": int(created_s * 1e9),
        "duration_ms": None,
        "is_p2p": False,
        **changes,
    }


def write(folder: Path, rank: int, entries: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps({"version": "2.10", "entries": entries}))


@pytest.mark.parametrize("slow", [1.0, 1.5])
def test_the_rank_that_others_wait_for_is_named_although_all_steps_take_the_same_time(
    tmp_path: Path, slow: float
) -> None:
    rng = np.random.default_rng(3)
    own = 0.1 * np.exp(rng.normal(0, 0.1, (4, 256)))
    own[2] *= slow
    period = own.max(axis=0) + 0.01
    begins = np.concatenate([[0], np.cumsum(period)])
    for rank in range(4):
        # its compute time, then the collective, which lasts until the slowest has come
        write(
            tmp_path / "dumps",
            rank,
            [
                entry(
                    step + 1,
                    1e9 + rank * 100 + begins[step] + own[rank, step],  # clocks that differ
                    duration_ms=1e3 * float(period[step] - own[rank, step]),
                )
                for step in range(256)
            ],
        )
    found = flight_record(tmp_path / "dumps")
    assert found.timed
    assert found.stops == ()
    assert [one.rank for one in found.stragglers] == ([2] if slow > 1 else [])
    said = typed(tmp_path, "watch", "--flight-recorder", "dumps", "--json")
    assert said.returncode == (1 if slow > 1 else 0)
    assert [one["rank"] for one in json.loads(said.stdout)["stragglers"]] == ([2] if slow > 1 else [])


def test_another_operation_or_size_is_named(tmp_path: Path) -> None:
    for rank in range(3):
        changes = {"state": "started", "retired": False}
        sizes = {"input_sizes": [[9, 2]]} if rank == 2 else {}
        write(tmp_path / "dumps", rank, [entry(1, 1.0), entry(2, 2.0, **changes, **sizes)])
    (stop,) = flight_record(tmp_path / "dumps").stops
    assert (stop.missing, stop.different) == ((), {2: "nccl:all_reduce of 9x2"})
    assert (
        "rank 2 called nccl:all_reduce of 9x2"
        in typed(tmp_path, "watch", "--flight-recorder", "dumps").stdout
    )


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps(Evil()), "is not of plain data"),
        (pickle.dumps({"entries": [Evil()]}), "is not of plain data"),
        (b"", "no dump"),
        (b"garbage", "no dump"),
        (pickle.dumps([1]), "not a dictionary with a list"),
        (pickle.dumps({"entries": [{"collective_seq_id": "x"}]}), "no dump"),
        (pickle.dumps({"entries": 3}), "no dump"),
        (b"\x80\x04" + b"]" * 100_000, "no dump"),
    ],
)
def test_what_is_no_dump_is_an_error_and_runs_nothing(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps/nccl_trace_rank_0").write_bytes(content)
    said = typed(tmp_path, "watch", "--flight-recorder", "dumps")
    assert said.returncode == 4
    assert words in said.stderr
    assert "Traceback" not in said.stderr
    assert not (tmp_path / "owned").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file whose name ends with a rank"):
        flight_record(tmp_path / "empty")

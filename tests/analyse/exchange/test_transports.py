"""Which transport NCCL really took, from rank to rank: read, told first where it was another, shown."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_nccl_tests import V2_13
from test_nccl_tests_workload import stand_in

from assay.cli import assay
from assay.formats.nccl_debug import transports
from assay.records import Links, Result
from assay.view.sentences.exchange import MOST_ROWS, newest_transports, transport_lines, transport_table
from assay.workloads import exchange
from conftest import long_rows_but
from stated_runs import result

INFO = "{host}:1:1 [{gpu}] NCCL INFO "
INIT = INFO + "comm 0x55 rank {rank} nranks {ranks} cudaDev {gpu} busId 1000 - Init COMPLETE\n"
LINK = INFO + "Channel {channel:02d}/0 : {rank}[{gpu}] -> {to}[0] [{way}] via {via}\n"


def job(ranks: int, between: str = "NET/IB/0/GDRDMA", odd: str = "") -> str:
    """Rings over nodes of 8 GPUs with 4 channels, told by senders and receivers; `odd` once instead."""
    lines = []
    for rank in range(ranks):
        at = {"host": f"node-{rank // 8:03d}", "gpu": rank % 8, "rank": rank, "ranks": ranks}
        lines.append(INIT.format(**at))
        inside, outside = rank // 8 * 8 + (rank + 1) % 8, (rank + 8) % ranks
        for channel in range(4):
            via = odd if odd and rank == 8 else between
            told = {**at, "channel": channel}
            lines.append(LINK.format(**told, to=inside, way="send", via="P2P/CUMEM"))
            lines.append(LINK.format(**told, to=outside, way="send", via=via))
            there = {**told, "host": f"node-{outside // 8:03d}", "gpu": outside % 8}
            lines.append(LINK.format(**there, to=outside, way="receive", via=via))
    return "".join(lines)


def links_of(tmp_path: Path, text: str, hosts: dict[int, str] | None = None) -> tuple[Links, ...]:
    log = tmp_path / "rank-0.log"
    log.write_text(text)
    return exchange.links(transports([log]), hosts or {})


def test_a_small_job_is_told_from_rank_to_rank_and_a_channel_counts_once(tmp_path: Path) -> None:
    found = links_of(tmp_path, job(16))
    assert Links("0 node-000", "8 node-001", "GPUDirect RDMA", 1, 4) in found
    assert Links("0 node-000", "1 node-000", "P2P", 1, 4) in found
    assert len(found) == 32


def test_a_large_job_is_told_from_node_to_node(tmp_path: Path) -> None:
    found = links_of(tmp_path, job(512, odd="NET/Socket/0"))
    assert len(found) == 64 + 64 + 1
    assert Links("node-000", "node-000", "P2P", 8, 32) in found
    assert Links("node-001", "node-002", "GPUDirect RDMA", 7, 28) in found
    assert Links("node-001", "node-002", "sockets", 1, 4) in found


def test_nodes_come_from_the_programs_own_list_where_nccls_lines_lack_them(tmp_path: Path) -> None:
    line = LINK.format(host="a", gpu=0, rank=0, channel=0, to=1, way="send", via="NET/IB/0")
    assert links_of(tmp_path, line, {0: "node-a"}) == (Links("0 node-a", "1 ?", "InfiniBand", 1, 1),)


def test_a_link_over_two_adapters_is_one_link_with_the_channels_of_both(tmp_path: Path) -> None:
    line = LINK.format(host="node-a", gpu=0, rank=0, channel=0, to=1, way="send", via="NET/IB/0")
    [found] = links_of(tmp_path, line + line.replace("IB/0", "IB/1"))
    assert (found.links, found.channels) == (1, 2)


def run_with(links: tuple[Links, ...], shape: str = "2x8") -> Result:
    made = result(None, shape=shape)
    return replace(made, reading=replace(made.reading, links=links))


def test_512_ranks_take_a_screen_and_the_odd_link_stands_first(tmp_path: Path) -> None:
    found = run_with(links_of(tmp_path, job(512, odd="NET/Socket/0")), "64x8")
    lines = list(transport_lines([found]))
    assert len(lines) < 30
    assert lines[0].endswith(
        "P2P 512 links, 2048 channels; GPUDirect RDMA 511 links, 2044 channels; sockets 1 link, 4 channels"
    )
    assert "node-001 -> node-002" in lines[1]
    assert "sockets" in lines[1]
    assert lines[-1].strip().startswith("and 105 more pairs: ")
    table = transport_table(found, "here")
    assert table.bodies[0].rows[0].cells == ("node-001", "node-002", "sockets", "1", "4")
    assert len(table.bodies[0].rows) == MOST_ROWS + 1


def test_few_places_are_a_matrix(tmp_path: Path) -> None:
    table = transport_table(run_with(links_of(tmp_path, job(16))), "here")
    assert len(table.columns) == 17
    first = dict(zip(table.columns, table.bodies[0].rows[0].cells, strict=True))
    assert first["8 node-001"] == "GPUDirect RDMA × 4"
    assert first["1 node-000"] == "P2P × 4"
    assert first["0 node-000"] == "·"


def test_only_the_last_run_of_a_point_is_shown(tmp_path: Path) -> None:
    links = links_of(tmp_path, job(16))
    runs = [run_with(links[:1]), run_with(links[:2]), result(None, shape="2x8")]
    assert newest_transports(runs) == [runs[1]]


@pytest.mark.parametrize(
    ("via", "told"),
    long_rows_but(1, [("NET/Socket/0", True), ("NET/IB/0", True), ("NET/IB/0/GDRDMA", False)]),
    ids=["sockets", "through the hosts' memory", "as asked"],
)
def test_a_trial_that_was_to_use_gpudirect_and_did_not_says_so_first_and_beside_its_figures(
    tmp_path: Path, via: str, told: bool
) -> None:
    """From a program's output on a real launcher to what is shown, with a recorded log."""
    program = stand_in(tmp_path, job(16, via) + V2_13)
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "suite: fabric\nworkload: nccl-tests\nshapes: [1x2]\nrepeats: 2\nsystems: [here]\n"
        f"params: {{program: {program}, mode: gpudirect}}\n"
    )
    (tmp_path / "systems.yaml").write_text("here: {launcher: local}\n")
    runs = ["--runs", str(tmp_path / "runs")]
    env = {name: value for name, value in os.environ.items() if name != "ASSAY_RUNS"}
    done = CliRunner().invoke(assay, ["run", str(suite), "--quiet", *runs], env=env)
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(assay, ["show", "fabric", *runs], env=env).output
    first = shown.splitlines()[0]
    assert ("requested gpudirect, but NCCL reports 16 links by" in first) is told
    assert ("! other-transport" in shown) is told
    assert ("! other-transport" in done.output) is told
    assert "0 node-000 -> 8 node-001" in shown
    written = CliRunner().invoke(
        assay, ["report", "fabric", "-o", str(tmp_path / "page.html"), *runs], env=env
    )
    assert written.exit_code == 0, written.output
    page = (tmp_path / "page.html").read_text()
    assert "From rank to rank: here" in page
    assert ("here, measured alone. It requested gpudirect" in page) is told

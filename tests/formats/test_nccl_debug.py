"""The transports that NCCL used, from its own lines of every version."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.formats.nccl_debug import Transports, kind_of, transports

HEAD = "node-a:4071:4188 [0] NCCL INFO "
INTER = HEAD + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"


def read(tmp_path: Path, text: str) -> Transports:
    log = tmp_path / "rank-0.log"
    log.write_text(text)
    return transports([log])


@pytest.mark.parametrize(
    ("line", "link", "via", "kind"),
    [
        ("Ring 00 : 0 -> 1 [send] via NET/IB/0/GDRDMA", (0, 1), "NET/IB/0/GDRDMA", "GPUDirect RDMA"),
        ("Ring 00 : 10[89000] -> 11[89000] [receive] via NET/IB/0", (10, 11), "NET/IB/0", "InfiniBand"),
        ("Channel 00 : 0[1b000] -> 8[1b000] [send] via NET/Socket/0", (0, 8), "NET/Socket/0", "sockets"),
        ("Channel 07 : 0[1b000] -> 8[1b000] [send] via NET/IB/1/GDRDMA/Shared", (0, 8),
         "NET/IB/1/GDRDMA/Shared", "GPUDirect RDMA"),
        ("Channel 00/0 : 0[0] -> 8[0] [receive] via NET/Socket/0", (0, 8), "NET/Socket/0", "sockets"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0(3)/GDRDMA", (0, 8), "NET/IB/0(3)/GDRDMA",
         "GPUDirect RDMA"),
        ("Channel 15/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA(PCI)", (0, 8), "NET/IB/0/GDRDMA(PCI)",
         "GPUDirect RDMA"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", (0, 8), "NET/AWS", "network"),
        ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", (0, 1), "P2P/IPC", "P2P"),
        ("Channel 02/0 : 0[0] -> 1[1] via P2P/CUMEM", (0, 1), "P2P/CUMEM", "P2P"),
        ("Channel 02 : 0[0] -> 1[1] via P2P/direct pointer", (0, 1), "P2P/direct pointer", "P2P"),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", (0, 1), "SHM/direct/direct", "shared memory"),
        ("Ring 01 : 0[0] -> 1[1] via direct shared memory", (0, 1), "direct shared memory", "shared memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_link_of_each_version_is_read(
    tmp_path: Path, line: str, link: tuple[int, int], via: str, kind: str
) -> None:
    found = read(tmp_path, HEAD + line + "\n")
    assert found.links == {link: {via: 1}}
    assert found.kinds == {kind: 1}
    assert found.skipped == 0


def test_links_of_all_ranks_make_one_table(tmp_path: Path) -> None:
    logs = []
    for rank in (0, 8):
        logs.append(tmp_path / f"rank-{rank}.log")
        logs[-1].write_text(f"[1,{rank}]<stdout>:" + INTER + INTER.replace("00/0", "01/0"))
    found = transports(logs)
    assert found.links == {(0, 8): {"NET/IB/0/GDRDMA": 4}}


def test_a_link_that_uses_two_transports_says_both(tmp_path: Path) -> None:
    found = read(tmp_path, INTER + INTER.replace("NET/IB/0/GDRDMA", "NET/Socket/1"))
    assert found.kinds == {"GPUDirect RDMA": 1, "sockets": 1}


def test_what_nccl_says_of_its_devices_is_kept_once(tmp_path: Path) -> None:
    said = [
        "NCCL version 2.28.9+cuda13.0",
        HEAD + "NET/IB : No device found.",
        HEAD + "NET/Socket : Using [0]eth0:10.0.0.1<0>",
        HEAD + "Using network Socket",
        HEAD + "Using network Socket",
        HEAD + "comm 0x5581 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 34000 - Init COMPLETE",
        HEAD + "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        HEAD + "NET/IB : No device found.",
        HEAD + "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 5 > 3)",
        HEAD + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>",
    ]
    found = read(tmp_path, "\n".join(said) + "\n")
    assert (found.network, found.version, found.ranks) == ("Socket", "2.28.9+cuda13.0", 16)
    assert found.notes == (
        "NET/IB : No device found.",
        "NET/Socket : Using [0]eth0:10.0.0.1<0>",
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 5 > 3)",
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>",
    )
    assert found.hosts == {3: "node-a"}


def test_a_plugins_network_is_named(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD + "Using network AWS Libfabric\n").network == "AWS Libfabric"


@pytest.mark.parametrize(
    "torn",
    [
        HEAD + "Channel 00/0 : 0[0] -> node-b:99:99 [1] NCCL INFO 8[0] [send] via NET/IB/0/GDRDMA\n",
        HEAD + "Channel 00/0 : 0[0] -> 8[0] [send] via \n",
        HEAD + "Channel 00/0 : 0[zz] -> 8[0] [send] via NET/IB/0\n",
    ],
    ids=["another line fell into it", "nothing behind via", "no place"],
)
def test_a_torn_link_is_counted_and_not_taken(tmp_path: Path, torn: str) -> None:
    found = read(tmp_path, torn + INTER)
    assert found.links == {(0, 8): {"NET/IB/0/GDRDMA": 1}}
    assert found.skipped == 1


def test_a_line_that_was_cut_at_the_end_of_the_log_is_no_link(tmp_path: Path) -> None:
    found = read(tmp_path, INTER + INTER.rstrip("\n").removesuffix("RDMA"))
    assert found.links == {(0, 8): {"NET/IB/0/GDRDMA": 1}}


def test_a_log_without_such_lines_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "step 1\n") == Transports()
    assert read(tmp_path, "") == Transports()


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.log: can't be read"):
        transports([tmp_path / "absent.log"])


def test_a_receivers_lines_are_the_senders_channels_once_more(tmp_path: Path) -> None:
    sent = INTER + INTER.replace("00/0", "01/0")
    found = read(tmp_path, sent + sent.replace("[send]", "[receive]"))
    assert found.links == {(0, 8): {"NET/IB/0/GDRDMA": 2}}


WHOLE = "".join(
    HEAD + f"Channel {channel:02d}/0 : {a}[0] -> {b}[0] [send] via {via}\n"
    for channel in range(2)
    for a, b, via in ((0, 8, "NET/IB/0/GDRDMA"), (8, 16, "NET/Socket/1"), (16, 0, "NET/IB/1"))
)
LINKS = {(0, 8): "GPUDirect RDMA", (8, 16): "sockets", (16, 0): "InfiniBand"}


@given(end=st.integers(0, len(WHOLE)))
def test_a_log_that_was_cut_anywhere_has_true_links_only(
    tmp_path_factory: pytest.TempPathFactory, end: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(WHOLE[:end])
    for link, used in transports([log]).links.items():
        assert {kind_of(via) for via in used} == {LINKS[link]}


@given(
    where=st.integers(0, len(WHOLE)),
    other=st.sampled_from(
        [HEAD, "N/A", "1e+05", "node-b:1:1 [0] NCCL INFO Using network IB\n", "\n", " -> "]
    ),
)
def test_a_line_that_another_fell_into_is_counted_or_gone_and_never_another_transport(
    tmp_path_factory: pytest.TempPathFactory, where: int, other: str
) -> None:
    """A number that was cut can make a rank that isn't there, a name that was cut an unknown network."""
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_text(WHOLE[:where] + other + WHOLE[where:])
    found = transports([log])
    lines = sum(count for used in found.links.values() for count in used.values())
    assert lines <= 6
    assert lines + found.skipped >= 4
    kinds = {kind_of(via) for link, used in found.links.items() if link in LINKS for via in used}
    assert kinds <= {*LINKS.values(), "network"}


@given(text=st.binary(max_size=300), where=st.integers(0, len(INTER)))
def test_whatever_falls_into_a_link_makes_no_other_kind_of_it(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, where: int
) -> None:
    log = tmp_path_factory.mktemp("fuzz") / "log"
    log.write_bytes(INTER[:where].encode() + text + INTER[where:].encode())
    for used in transports([log]).links.values():
        assert all(kind_of(via) == "GPUDirect RDMA" or text for via in used)

"""What a log that nothing recognises came closest to: the words of each format that are in it.

None of the words is enough to recognise a format by: they tell a person which part of a log was not copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.inputs import Log


@dataclass(frozen=True)
class Format:
    """A kind of log.

    name   as `assay import --format` takes it
    line   what it is recognised by, as its program prints it
    words  of its logs, in lower case
    """

    name: str
    line: str
    words: tuple[str, ...]


FORMATS: Final = (
    Format("mlperf", ':::MLLOG {"key": …}', ("mllog", "run_start", "run_stop", "eval_accuracy", "loadgen")),
    Format("tf-cnn-benchmarks", "total images/sec: 1234.5", ("images/sec", "num batches", "variables:")),
    Format(
        "nccl-tests",
        "size count type … time algbw busbw",
        ("algbw", "busbw", "out-of-place", "avg bus bandwidth", "out of bounds values", "nccl-tests"),
    ),
    Format("perftest", "#bytes #iterations …", ("bw average", "t_typical", "msgrate", "send_bw", "ib_write")),
    Format("iperf3", '"version": "iperf 3…", of its --json', ("iperf", "bitrate", "retr  cwnd", "gbits/sec")),
    Format("param-comms", "COMMS-RES …", ("comms-", "busbw", "algbw", "num-elements")),
    Format("nvbandwidth", "nvbandwidth Version: …", ("nvbandwidth", "memcpy ce", "host_to_device")),
    Format(
        "gpu-burn", "proc'd: 123 (4567 Gflop/s)", ("gpu-burn", "gpu_burn", "proc'd", "gflop/s", "burning")
    ),
    Format("horovod", "Img/sec per GPU: …", ("img/sec", "horovod", "iter #")),
    Format("timm", "Train: 0 [ 0/100 …", ("timm", "samples/sec", "acc@1")),
    Format("deeplearningexamples", "DLL 2024-01-31 12:00:00 - …", ("dll ", "dlll", "throughput_")),
)


def words_in(path: Path) -> dict[str, list[str]]:
    """Format → its words that are in a file, most first; a format without any is left out.

    Raises InputError where the file can't be read.
    """
    wanted = {word for known in FORMATS for word in known.words}
    seen: set[str] = set()
    for block in Log(path).blocks():
        text = block.decode("latin-1").lower()
        seen |= {word for word in wanted - seen if word in text}
    found = {known.name: [word for word in known.words if word in seen] for known in FORMATS}
    most_first = sorted(found.items(), key=lambda pair: -len(pair[1]))
    return {name: words for name, words in most_first if words}


def unrecognised(path: Path) -> str:
    """Why a file is no log that is known, what it came closest to, and what there is.

    Raises InputError where it can't be read.
    """
    found = words_in(path)
    most = max(map(len, found.values()), default=0)
    closest = [known for known in FORMATS if len(found.get(known.name, ())) == most > 0]
    parts = ["is no log of a known format"]
    if closest:
        parts.append(f"closest {_listed(closest, found)}")
    names = ", ".join(known.name for known in FORMATS)
    parts.append(f"known are {names}; state with --format which it is, or copy the whole log")
    return "; ".join(parts)


def _listed(closest: Iterable[Format], found: dict[str, list[str]]) -> str:
    return "; ".join(
        f"is {known.name}: it has {', '.join(map(repr, found[known.name]))} and lacks the line `{known.line}`"
        for known in closest
    )

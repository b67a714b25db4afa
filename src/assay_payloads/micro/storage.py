"""What a directory's storage delivers to several clients at once, measured with fio, phase by phase.

    python -m assay_payloads.micro.storage --directory /scratch --size-bytes 1073741824

Every rank is a client with files of its own, and all start each phase together. The phases, in this order:

    sequential-write   each job writes its files and waits until they are stored
    sequential-read    the same files from their start, bypassing the page cache
    random-read        blocks of them at random places: what a training reads
    random-write       blocks of them, at random places
    checkpoint-save    one file of a stated size per rank, stored when the time ends
    checkpoint-load    the same file, dropped from the page cache first
    file-create, file-stat, file-list, file-read, file-delete   many small files

fio writes its own report of each phase into the log, where the reader finds the figures. fio can't list a
directory, so this program does, and prints how long each rank took.

The files lie in a directory of this run, `.assay-storage-…`, which is removed when the program ends. After
SIGKILL it stays, and the next run on this machine removes it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from assay_payloads.measuring.rank import END, Rank
from assay_payloads.measuring.rendezvous import Rendezvous
from assay_payloads.measuring.site_program import NOT_THERE, FailureWords, SiteProgram
from assay_payloads.micro.disk import file_system

PHASES = {  # phase → fio's rw, or the kind of the phase
    "sequential-write": "write",
    "sequential-read": "read",
    "random-read": "randread",
    "random-write": "randwrite",
    "checkpoint-save": "write",
    "checkpoint-load": "read",
    "file-create": "filecreate",
    "file-stat": "filestat",
    "file-list": "",
    "file-read": "read",
    "file-delete": "filedelete",
}
PREFIX = ".assay-storage-"
CHECKPOINT_BLOCK = 2**23  # bytes: what torch writes at once, and larger than a stripe
PATIENCE_S = 3600.0  # for the slowest rank's phase: a slow disk is what is measured
WORDS = FailureWords(
    (
        (r"No space left", "the directory's file system is full; reduce size_bytes or choose another one"),
        (
            r"Invalid argument.*direct|does not support direct",
            "set direct: false for a file system without O_DIRECT",
        ),
        (
            r"(bad|unrecognized) option|engine .* not loadable",
            "this fio is too old or lacks an engine; 3.19 or newer is needed",
        ),
    )
)


class RunFolder:
    """The rank's directory for the run's files, removed at the end; those of killed runs go at the start."""

    def __init__(self, rank: Rank, directory: str) -> None:
        root = Path(directory)
        self._remove_left(root)
        host = socket.gethostname()
        self.path = root / f"{PREFIX}{host}-{rank.rank}-{secrets.token_hex(4)}"
        unlocked = root / f".new{self.path.name}"  # by no name under which another rank removes what is left
        unlocked.mkdir()
        self._lock = os.open(unlocked, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(self.path)

    @staticmethod
    def _remove_left(root: Path) -> None:
        """Only those of this machine, whose lock tells that nobody uses them."""
        for left in root.glob(f"{PREFIX}{socket.gethostname()}-*"):
            try:
                held = os.open(left, os.O_RDONLY)
            except OSError:
                continue
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            except OSError:
                continue
            finally:
                os.close(held)

    def remove(self) -> None:
        """Everything in it, and itself."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def argv(options: argparse.Namespace, phase: str, place: Path, seed: int) -> list[str]:
    """Fio's command for a phase."""
    kind = phase.partition("-")[0]
    settings = {
        "name": phase,
        "directory": str(place),
        "output-format": "json",
        "group_reporting": "1",
        "randrepeat": "0",
        "randseed": str(seed),
        "invalidate": "1",
        "thread": "1",
    }
    if kind in ("sequential", "random"):
        settings |= _of_data(options, phase)
    elif kind == "checkpoint":
        settings |= {
            "rw": PHASES[phase],
            "bs": str(min(CHECKPOINT_BLOCK, options.checkpoint_bytes)),
            "size": str(options.checkpoint_bytes),
            "filename_format": "checkpoint",
            "ioengine": "psync",
            "refill_buffers": "1",
        }
        settings |= {"end_fsync": "1"} if phase == "checkpoint-save" else {}
    else:
        settings |= _of_files(options, phase)
    return [options.program, *(f"--{name}={value}" for name, value in settings.items())]


def _of_data(options: argparse.Namespace, phase: str) -> dict[str, str]:
    block = options.block_bytes if phase.startswith("sequential") else options.random_block_bytes
    each = options.size_bytes // options.jobs // block * block
    settings = {
        "rw": PHASES[phase],
        "bs": str(block),
        "size": str(each),
        "numjobs": str(options.jobs),
        "iodepth": str(options.depth),
        "ioengine": options.engine,
        "direct": str(int(options.direct)),
        "filename_format": "data.$jobnum",
        "refill_buffers": "1",
    }
    if phase != "sequential-write":  # the writing is what lays the files out, so it ends with them
        settings |= {
            "time_based": "1",
            "runtime": str(options.seconds),
            "ramp_time": str(options.ramp_seconds),
        }
        settings |= {"norandommap": "1"} if phase.startswith("random") else {}
    settings |= {"end_fsync": "1"} if phase.endswith("write") else {}
    return settings


def _of_files(options: argparse.Namespace, phase: str) -> dict[str, str]:
    settings = {
        "bs": str(options.file_bytes),
        "filesize": str(options.file_bytes),
        "nrfiles": str(options.files),
        "numjobs": str(options.jobs),
        "openfiles": "1",
        "file_service_type": "sequential",
        "filename_format": "files.$jobnum.$filenum",
        "fallocate": "none",
    }
    if phase == "file-read":
        direct = options.direct and options.file_bytes % 4096 == 0
        return settings | {"rw": "read", "ioengine": "psync", "direct": str(int(direct))}
    settings |= {"ioengine": PHASES[phase], "rw": "write" if phase == "file-create" else "read"}
    if phase == "file-stat":  # of which there are too many a second for fio's clock of milliseconds
        settings |= {"time_based": "1", "runtime": str(options.seconds)}
    return settings


def measure(rank: Rank, meeting: Rendezvous, options: argparse.Namespace, place: Path) -> None:
    """Every phase, on all ranks together."""
    for index, phase in enumerate(options.phases):
        seed = options.seed * 1000 + index * 100 + rank.rank
        meeting.together(PATIENCE_S)
        if phase == "file-list":
            listing(rank, options, place)
        else:
            run(rank, options, argv(options, phase, place, seed), phase)
        if phase == "file-create":
            written(options, place)
    meeting.together(PATIENCE_S)  # nobody's files go while another measures


def run(rank: Rank, options: argparse.Namespace, command: list[str], phase: str) -> None:
    """One report of fio."""
    try:
        program = SiteProgram(rank, command, "client", {"phase": phase, "client": rank.rank})
    except OSError as error:
        rank.fail(f"{options.program} can't be started: {error.strerror}: {NOT_THERE}")
    while program.pass_on():
        pass
    if why := program.why_not(WORDS):
        rank.fail(f"{phase}: {why}")


def written(options: argparse.Namespace, place: Path) -> None:
    """Fio creates its files empty; a read needs bytes in them."""
    content = os.urandom(options.file_bytes)
    for path in place.glob("files.*"):
        with open(path, "wb", buffering=0) as file:  # noqa: PTH123 - many
            file.write(content)
    os.sync()


def listing(rank: Rank, options: argparse.Namespace, place: Path) -> None:
    """Entries per second of reading the directory, which fio can't do."""
    expected, count, begun = options.files * options.jobs, 0, time.perf_counter()
    with os.scandir(place) as entries:
        count = sum(entry.name.startswith("files.") for entry in entries)
    took = time.perf_counter() - begun
    if count != expected:
        rank.fail(f"file-list: {place} has {count} small files; expected {expected}")
    rank.log("listing", took, event=END, entries=count)


def engine(program: str) -> str:
    """The engine that keeps several requests in flight, if this fio and this kernel have it."""
    for name in ("io_uring", "libaio"):
        probe = [
            program,
            "--name=probe",
            f"--ioengine={name}",
            "--rw=read",
            "--size=4k",
            "--filename=/dev/zero",
        ]
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode == 0:
            return name
    return "psync"


def checked(rank: Rank, options: argparse.Namespace) -> None:
    """Refuse what can't be measured before the first byte is written."""
    done = [phase for phase in PHASES if phase in options.phases]
    options.phases = done
    needed = options.size_bytes if "sequential-write" in done else 0
    needed += options.checkpoint_bytes if "checkpoint-save" in done else 0
    needed += options.files * options.jobs * max(options.file_bytes, 4096) if "file-create" in done else 0
    space = os.statvfs(options.directory)
    free = space.f_bavail * space.f_frsize
    if needed > free / 2:
        rank.fail(
            f"{options.directory} has {free} bytes free; a client's files take {needed} and may take at "
            "most half"
        )
    if "sequential-write" in done and options.size_bytes < options.jobs * options.block_bytes:
        rank.fail(f"--size-bytes {options.size_bytes} is less than a block for each of {options.jobs} jobs")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", required=True, help="on the storage to measure")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES))
    parser.add_argument("--size-bytes", type=int, default=2**30, help="of each rank's files")
    parser.add_argument("--block-bytes", type=int, default=2**20, help="of a sequential read or write")
    parser.add_argument("--random-block-bytes", type=int, default=2**17, help="of a random read or write")
    parser.add_argument("--jobs", type=int, default=4, help="of fio in each rank")
    parser.add_argument("--depth", type=int, default=16, help="requests in flight of each job")
    parser.add_argument("--seconds", type=int, default=10, help="of each timed phase")
    parser.add_argument(
        "--ramp-seconds", type=int, default=1, help="before the figures of a timed phase count"
    )
    parser.add_argument(
        "--direct", action=argparse.BooleanOptionalAction, default=True, help="bypass the page cache"
    )
    parser.add_argument("--checkpoint-bytes", type=int, default=2**30, help="of each rank's checkpoint")
    parser.add_argument("--files", type=int, default=2000, help="small files of each job")
    parser.add_argument("--file-bytes", type=int, default=2**17, help="size of a small file")
    parser.add_argument("--program", default="fio", help="its path, or its name on the PATH")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rank = Rank()
    rank.log("world_size", rank.size)
    if shutil.which(options.program) is None:
        rank.fail(f"{options.program} can't be started: {NOT_THERE}")
    try:
        options.engine = engine(options.program)
        checked(rank, options)
        place = RunFolder(rank, options.directory)
    except OSError as error:
        rank.fail(f"{options.directory}: {error.strerror or error}")
    rank.log("ioengine", options.engine)
    rank.log("file_system", file_system(options.directory))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the files are removed
    try:
        measure(rank, Rendezvous(rank), options, place.path)
    except OSError as error:
        rank.fail(f"{options.directory}: {error.strerror or error}")
    finally:
        place.remove()
    rank.log("payload", event=END)


if __name__ == "__main__":
    main()

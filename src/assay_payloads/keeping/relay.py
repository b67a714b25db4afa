"""Prints everything that a kept job prints to standard output, framed so that no loss goes unnoticed.

Runs with only the standard library (3.9 or newer), next to keeper.py:

    python -I -S …/relay.py DIRECTORY [--from JSON]       what is kept there, until its keeper has ended
    python -I -S …/relay.py DIRECTORY --keep [--unpack DIRECTORY] [--node-from VARIABLE]
                                                          start the keeper, relay, end as it ended: a pod

A frame is a header line, then the stated number of bytes, then a line end:

    :::ASSAY-FRAME stream offset length crc32 [deflated]
The offset is the frame's position in its stream, which makes it its sequence number: reading again from any
offset (`--from` takes stream → bytes already read) misses nothing and repeats nothing.
Streams are those of the keeper; `started-N` and `ended-N` contain its JSON files, and after the end
`file:NAME` each file that the job should keep. `ended-N` comes last. Anything outside a frame comes from the
platform, not the job. Length and checksum are of the bytes themselves. A deflated frame has them
zlib-compressed in base64, on one line. It is used for long frames, because a kubelet handles a log
line by line and keeps only a limited part, and for those with a carriage return before a line end, because
container runtimes drop it (containerd reads lines with Go's bufio.ReadLine).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

MARK = ":::ASSAY-FRAME"
WAITS = "assay: waits for "
UNKEPT = "assay: outputs: "  # begins why the files that the job was to keep are not sent
FRAME_BYTES = 1 << 18
PLAIN_BYTES = 1 << 12  # what a person may want to read in the platform's own log
LOOK_EVERY_S = 0.05
ENDING = {signal.SIGTERM, signal.SIGINT}
FILES_LIMIT_BYTES = 4 << 20  # a kubelet keeps about 10 MB of a container's log at hand

NO_FILES: Sequence[tuple[Callable[[int], bool], str]] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
Stamp = tuple[int, int, int]
"""Time of change in ns, size in bytes, inode: equal as long as nobody wrote the file."""


def relay(directory: Path, node: int, taken: dict[str, int], runs: Callable[[], bool]) -> None:
    """Print everything after what was taken, until the job is no longer running."""
    over, waits_for = False, None
    while True:
        waiting = read_json(directory / "waiting.json")
        if waiting is not None and waiting["for"] != waits_for:
            waits_for = waiting["for"]
            print(f"{WAITS}{waits_for}", flush=True)
        moved = say_new(directory, node, taken, ended=over)
        if over and not moved:
            break
        over = over or not runs()  # known before the next check, so that the last check misses nothing
        if not moved and not over:
            time.sleep(LOOK_EVERY_S)
    for name, path in asked_files(directory):
        say_file(f"file:{quote(name)}", path, taken)
    say_file(f"ended-{node}", directory / "ended.json", taken)


def say_new(directory: Path, node: int, taken: dict[str, int], *, ended: bool) -> bool:
    """Print what is new in each stream, at most one frame each; returns whether there was anything.

    ended  whether the job has: then nothing waits for more
    """
    moved = say_file(f"started-{node}", directory / "started.json", taken)
    for path in sorted((directory / "streams").glob("*.log")):
        if ended or not samples_wait(path, taken):
            moved |= say_part(path.stem, path, taken)
    return moved


def samples_wait(path: Path, taken: Mapping[str, int]) -> bool:
    """Whether these are a sampler's newest lines, which are sent some together: a platform's log is short."""
    return path.name.startswith("telemetry-") and path.stat().st_size - taken.get(path.stem, 0) <= PLAIN_BYTES


def say_file(stream: str, path: Path, taken: dict[str, int]) -> bool:
    """Print a whole final file, even if empty; False if it does not exist or was already printed."""
    if not path.exists() or taken.get(stream) == path.stat().st_size:
        return False
    if path.stat().st_size == 0:
        say(stream, 0, b"")
        taken[stream] = 0
    while say_part(stream, path, taken):
        pass
    return True


def say_part(stream: str, path: Path, taken: dict[str, int]) -> bool:
    """Print one frame of what is new in a file."""
    offset = taken.get(stream, 0)
    if path.stat().st_size <= offset:
        return False
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(FRAME_BYTES)
    say(stream, offset, data)
    taken[stream] = offset + len(data)
    return True


def say(stream: str, offset: int, data: bytes) -> None:
    """Write one frame, whole."""
    deflated = len(data) > PLAIN_BYTES or b"\r\n" in data or data.endswith(b"\r")
    head = f"{MARK} {stream} {offset} {len(data)} {zlib.crc32(data):08x}{' deflated' if deflated else ''}\n"
    out = sys.stdout.buffer
    out.write(head.encode() + (base64.b64encode(zlib.compress(data, 1)) if deflated else data) + b"\n")
    out.flush()


def asked_files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of each file that the job should keep; none, with a message, if they exceed the limit."""
    spec = read_json(directory / "spec.json") or read_json(directory.parent / "spec.json") or {}
    work = Path(spec.get("cwd", directory))
    before = {name: tuple(stamp) for name, stamp in spec.get("files_before", {}).items()}
    changed = stamps(work, spec.get("outputs", ()), before)
    total = sum(size for _, size, _ in changed.values())
    if total > FILES_LIMIT_BYTES:
        files = "1 file" if len(changed) == 1 else f"{len(changed)} files"
        # flushed: nobody reads beyond the last frame
        print(f"{UNKEPT}{total} bytes in {files}; a log carries {FILES_LIMIT_BYTES}", flush=True)
        return
    if problem := no_files(work, spec.get("outputs", ())):
        print(f"{UNKEPT}{problem}", flush=True)
    for name in changed:
        yield name, work / name


def stamps(
    directory: Path, patterns: Sequence[str], before: Mapping[str, Stamp] | None = None
) -> dict[str, Stamp]:
    """Changed regular files below a directory that match one of the globs: name → stamp.

    Links are followed only if they stay inside.
    """
    inside = directory.resolve()
    current = {}
    for pattern in patterns:
        for path in directory.glob(pattern):
            try:
                facts = path.stat()
            except FileNotFoundError:  # a broken link
                continue
            if stat.S_ISREG(facts.st_mode) and inside in path.resolve().parents:
                current[str(path.relative_to(directory))] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    return {name: stamp for name, stamp in sorted(current.items()) if (before or {}).get(name) != stamp}


def no_files(directory: Path, patterns: Sequence[str]) -> str:
    """Outputs below a directory that can't be kept as a file, with what to do."""
    problems = []
    for name in patterns:
        path = directory / name
        if set(name) & set("*?[") or not path.exists():  # a glob may match nothing
            continue
        mode = path.stat().st_mode
        kind = next((description for is_kind, description in NO_FILES if is_kind(mode)), "")
        if not kind and directory.resolve() not in path.resolve().parents:
            kind = "a link that leads out of the working directory"
        if kind:
            problems.append(f"{name} is {kind}, but outputs must be regular files")
    return "; ".join(problems)


def keep(directory: Path, node_from: str | None) -> tuple[subprocess.Popen[bytes], int]:
    """Start the keeper next to this file; returns its process, and which node this is."""
    node_options = ["--node-from", node_from] if node_from else []
    program = str(Path(__file__).with_name("keeper.py"))
    signal.pthread_sigmask(
        signal.SIG_BLOCK, ENDING
    )  # otherwise one that arrives before the keeper runs is lost
    keeper = subprocess.Popen([sys.executable, "-I", "-S", program, str(directory), *node_options])
    for number in ENDING:  # a pod's end is requested from its first process: this one
        signal.signal(number, lambda received, _frame: keeper.send_signal(received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    return keeper, int(os.environ[node_from]) if node_from else 0


def unpack(source: Path, directory: Path) -> None:
    """Unpack a job that arrived as `spec.json` and the parts of an archive of its files."""
    work = directory / "work"
    work.mkdir(parents=True, exist_ok=True)
    archive = directory / "files.tar.gz"
    with archive.open("wb") as whole:
        for part in sorted(source.glob("files.tar.gz.*")):
            whole.write(part.read_bytes())
    with tarfile.open(archive) as opened:
        opened.extractall(work)  # noqa: S202  (made by the launcher, which checked the names)
    archive.unlink()
    spec = read_json(source / "spec.json")
    assert spec is not None
    spec["files_before"] = stamps(work, spec["outputs"])
    (directory / "spec.json").write_text(json.dumps(spec))


def keeper_runs(owner: Mapping[str, Any]) -> bool:
    """Whether the process that took a job is alive, from its `claim.json`; False for an empty one."""
    if owner.get("by") != "keeper" or owner["boot_id"] != boot_id():
        return False
    try:
        fields = Path(f"/proc/{owner['pid']}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == owner["start_ticks"] and fields[0] not in "ZX"


def boot_id() -> str:
    """What distinguishes this boot of the machine from every other; "" if the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_json(path: Path) -> Any:
    """The value in a JSON file; None if it does not exist."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def main(args: argparse.Namespace) -> int:
    """Relay to the end; returns the keeper's exit code if it was started here."""
    if args.unpack:
        unpack(args.unpack, args.directory)
    if not args.keep:
        taken: Mapping[str, int] = json.loads(args.taken)
        relay(
            args.directory,
            args.node,
            dict(taken),
            lambda: keeper_runs(read_json(args.directory / "claim.json") or {}),
        )
        return 0
    keeper, node = keep(args.directory, args.node_from)
    spec = read_json(args.directory / "spec.json")
    own = args.directory / f"node-{node}" if spec["nodes"] > 1 else args.directory
    relay(own, node, {}, lambda: keeper.poll() is None)
    code = keeper.wait()
    if code < 0:
        print(f"assay: the job's keeper was killed by {signal.Signals(-code).name}", flush=True)
    return code if code >= 0 else 128 - code


def command_line() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Prints the output of a kept job, framed.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--from", dest="taken", default="{}", metavar="JSON")
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--unpack", type=Path)
    parser.add_argument("--node-from", metavar="VARIABLE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(command_line()))

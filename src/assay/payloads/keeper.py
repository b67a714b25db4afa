"""Keeps one node's share of a job: starts its ranks, holds the time limit, says how each ended.

Runs alone with the standard library (3.9 or newer), so that it works the same on this machine, in a pod or
below a batch system, and does not depend on whoever started it:

    python -I -S keeper.py DIRECTORY [--detach] [--node-from VARIABLE]

DIRECTORY holds `spec.json` (see `Spec`). Where a job has several nodes, each has a keeper: the variable of
the environment says which node this one is, from 0, and its own directory is DIRECTORY/node-N. The keeper
adds to its directory
  claim.json        it took the job: its process id, start time, boot id and host; made exactly once
  started.json      the ranks run: time, port, cores
  ended.json        how it ended, with size and digest of each stream, and what the kernel counted meanwhile
                    (counters.py, which lies beside this file); the last thing written
  streams/NAME.log  what `rank-0`, `rank-1`, … and `probe-0` (one a node) print, output and error together
Each JSON file is there whole or not at all. It exits 0 when all its ranks did, else as the first that failed
(124 at the time limit, 143 when cancelled), so that a platform that watches it ends the other nodes.

No process of the job outlives it. Ranks get SIGKILL from the kernel when the keeper dies. When the job
ends, for whatever reason, every process below the keeper is asked with SIGTERM and killed after the grace
time, those too that left their process group: as the subreaper the keeper inherits every orphan.
SIGTERM or SIGINT to the keeper cancels the job.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

WAKING = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NAME_WAIT_S, NAME_EVERY_S, NAME_TOLD_S = 60.0, 0.2, 2.0
KILL_WAIT_S = 5.0  # SIGKILL needs no consent; what is left then hangs in the kernel (a driver, a dead NFS)
EXIT_NOT_OURS, EXIT_TIMED_OUT, EXIT_CANCELLED = 75, 124, 143
USUAL_MEANING = {126: "a program could not be executed", 127: "a program was not found"}
LIBC = ctypes.CDLL(None, use_errno=True)

Spec = dict[str, Any]
"""What `spec.json` holds:

token      in the environment of every process of the job, so that none is ever lost from sight
argv, cwd  of every rank; env: added to the keeper's own environment
ranks      how many on this node; nodes: how many nodes run as many each
seed       what ranks get as ASSAY_SEED
timeout_s  from the start of the ranks; grace_s: between SIGTERM and SIGKILL
pin_cpus   each rank on its own cores
rank_env   a directory with LOCAL_RANK.json for each rank: variables of that rank alone; may be left out
probe      argv that is run before the ranks, or null; probe_timeout_s

A job of one node meets at the loopback address and a free port; one of several at MASTER_ADDR and
MASTER_PORT (or PET_MASTER_ADDR, PET_MASTER_PORT) of the keeper's environment.
"""


def main(directory: Path, *, detach: bool, node: int) -> int:
    """Take the job and keep it to its end; EXIT_NOT_OURS where somebody else has taken it."""
    spec = json.loads((directory / "spec.json").read_bytes())
    if spec["nodes"] > 1:
        directory = directory / f"node-{node}"
        directory.mkdir(exist_ok=True)
    taken = detached() if detach else None
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    if not claim(directory, spec["token"]):
        print("the job was given up, or taken by another keeper, before this one came", file=sys.stderr)
        return EXIT_NOT_OURS
    if taken is not None:
        os.write(taken, b"+")
        os.close(taken)
    ended = keep(spec, directory, node)
    write_whole(directory / "ended.json", ended)
    return exit_code(ended)


def keep(spec: Spec, directory: Path, node: int) -> dict[str, Any]:
    """Run this node's share of the job; how it ended, as `ended.json` holds it."""
    cores, ranks = sorted(os.sched_getaffinity(0)), spec["ranks"]
    if spec["pin_cpus"] and ranks > len(cores):
        return outcome("failed", f"pin_cpus: {ranks} ranks can't each have a core of {len(cores)}")
    (directory / "streams").mkdir(exist_ok=True)
    port = reserve_port() if spec["nodes"] == 1 else None
    meeting = ("127.0.0.1", str(port.getsockname()[1])) if port else given_meeting()
    if meeting is None:
        return outcome("failed", "a job of several nodes needs MASTER_ADDR and MASTER_PORT; they are not set")
    sets = share(cores, ranks) if spec["pin_cpus"] else None
    env = job_environment(spec, node, meeting)
    if sets:
        env["ASSAY_PINNED_CORES"] = "|".join(",".join(map(str, own)) for own in sets)
    probe = run_probe(spec, env, directory / "streams" / f"probe-{node}.log") if spec["probe"] else None
    if probe is not None and probe["state"] == "cancelled":
        return outcome("cancelled", "cancelled before the ranks started", probe=probe)
    if (unknown := await_name(meeting[0], directory)) is not None:
        return outcome(*unknown, probe=probe)
    programs = [rank_program(spec, env, directory, node, local, sets) for local in range(ranks)]
    job = Processes(programs, "rank {}", first=node * ranks)
    before = counters()["look"]()
    job.start()
    stated = {"meeting": ":".join(meeting), "omp_num_threads": env["OMP_NUM_THREADS"], "cores": sets}
    write_whole(directory / "started.json", {"started_at": job.started_at, **stated})
    state, cause = job.run_to_end(spec["timeout_s"], spec["grace_s"])
    met = counters()["between"](before, counters()["look"]())
    return {**outcome(state, cause, job, probe), "node": met, "streams": digests(directory / "streams")}


def exit_code(ended: dict[str, Any]) -> int:
    """What whoever started the keeper is told: 0 only where all ranks ended well."""
    if ended["state"] == "succeeded":
        return 0
    first = next((end for end in ended["exits"] if end["first"]), None)
    if first is not None:
        return first["exit_code"] or 128 + getattr(signal, first["signal"], signal.SIGTERM)
    return {"timed out": EXIT_TIMED_OUT, "cancelled": EXIT_CANCELLED}.get(ended["state"], 1)


def outcome(
    state: str, cause: str, job: Processes | None = None, probe: dict[str, Any] | None = None
) -> dict[str, Any]:
    """`ended.json`. The end is the start plus a monotonic duration, so that their difference is exact."""
    return {
        "state": state,
        "cause": cause,
        "exits": job.exits() if job else [],
        "started_at": job.started_at if job else None,
        "ended_at": job.started_at + job.duration_s if job else time.time(),
        "duration_s": job.duration_s if job else 0.0,
        "probe": probe,
        "node": None,
        "streams": {},
    }


def digests(streams: Path) -> dict[str, Any]:
    """Bytes, lines and SHA-256 of what each stream holds: whoever copies it can tell whether all came."""
    found = {}
    for path in sorted(streams.glob("*.log")):
        digest, size, lines = hashlib.sha256(), 0, 0
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                size, lines = size + len(block), lines + block.count(b"\n")
        found[path.stem] = {"bytes": size, "lines": lines, "sha256": digest.hexdigest()}
    return found


def run_probe(spec: Spec, env: dict[str, str], log: Path) -> dict[str, Any]:
    """Run the probe to its end or its time limit. That it failed is recorded and fails nothing."""
    probe = Processes([Program(spec["probe"], env, spec["cwd"], log, None)], "the probe")
    probe.start()
    state, cause = probe.run_to_end(spec["probe_timeout_s"], 0.1)
    if state != "succeeded":
        with log.open("a") as file:
            file.write(f"assay: {cause}\n")
    return {"state": state, "cause": cause, "duration_s": probe.duration_s}


# Processes -----------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """What a process is to become; cores None leaves it on all."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: Path
    cores: list[int] | None


class Processes:
    """Programs that run side by side and end together; each leads its own process group.

    They are ranks from `first` on.
    """

    def __init__(self, programs: list[Program], called: str, first: int = 0) -> None:
        self.programs, self.called, self.first = programs, called, first
        self.running: dict[int, int] = {}  # process id → rank
        self.ended: dict[int, int] = {}  # rank → wait status
        self.first_failed: int | None = None  # of those that nobody asked to end
        self.reports, self.reporter = os.pipe()  # a rank that can't become its program says why
        os.set_blocking(self.reports, False)
        self.started_at = self.began = self.duration_s = 0.0
        self.oom_kills, self.memory = count_oom_kills(), dict(counters()["memory_groups"](""))

    def start(self) -> None:
        """Start them all."""
        self.started_at, self.began = time.time(), time.monotonic()
        for rank, program in enumerate(self.programs, self.first):
            self.running[spawn(program, rank, self.reporter)] = rank

    def run_to_end(self, timeout_s: float, grace_s: float) -> tuple[str, str]:
        """Wait for the end or make it: state and cause. Afterwards nothing of them runs."""
        state, cause = self._watch(timeout_s)
        self.duration_s = time.monotonic() - self.began
        left = self._end_all(grace_s)
        if state == "failed":
            cause = self._why_it_failed()
        elif state == "timed out":
            killed = sorted(r for r, status in self.ended.items() if how(status)["signal"] == "SIGKILL")
            if killed:
                cause += f"; {self._call(*killed)} did not heed SIGTERM and was killed after {grace_s:g} s"
        if left:
            cause += f"; processes {left} can't be killed: they hang in the kernel"
        return state, cause

    def exits(self) -> list[dict[str, Any]]:
        """How each rank ended; one that can't be killed has no entry."""
        first = self.first_failed
        return [{"rank": r, **how(self.ended[r]), "first": r == first} for r in sorted(self.ended)]

    def reap(self) -> bool:
        """Take in whatever ended, inherited orphans too; False when no process is left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.running:
                self.ended[self.running.pop(pid)] = status

    def _watch(self, timeout_s: float) -> tuple[str, str]:
        while True:
            self.reap()
            failed = [rank for rank, status in self.ended.items() if status != 0]
            if (failed or not self.running) and asked_to_end(self.ended.values()):
                return "cancelled", "cancelled"
            if failed:
                self.first_failed = failed[0]
                return "failed", ""
            if not self.running:
                return "succeeded", ""
            left_s = self.began + timeout_s - time.monotonic()
            if left_s <= 0:
                still = self._call(*sorted(self.running.values()))
                return "timed out", f"{still} still ran at the time limit of {timeout_s:g} s"
            info = signal.sigtimedwait(WAKING, left_s)
            if info is not None and info.si_signo in (signal.SIGTERM, signal.SIGINT):
                return "cancelled", "cancelled"

    def _end_all(self, grace_s: float) -> list[int]:
        """End everything below this process, gently, then not; the process ids that even so are left."""
        if not self.reap():
            return []
        self._signal_all(signal.SIGTERM)
        if self._none_left(grace_s):
            return []
        give_up = time.monotonic() + KILL_WAIT_S
        while time.monotonic() < give_up:  # again and again: what is killed may just have forked
            self._signal_all(signal.SIGKILL)
            if self._none_left(0.02):
                return []
        return sorted(descendants())

    def _none_left(self, patience_s: float) -> bool:
        until = time.monotonic() + patience_s
        while self.reap():
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
        return True

    def _signal_all(self, number: int) -> None:
        """The process groups at once, then one by one what has left them."""
        for group in self.running:
            send(os.killpg, group, number)
        for pid, group in descendants().items():
            if group not in self.running:
                send(os.kill, pid, number)

    def _why_it_failed(self) -> str:
        rank = self.first_failed
        assert rank is not None
        end = how(self.ended[rank])
        if end["signal"]:
            cause = f"{self._call(rank)} was killed by {end['signal']}"
            return cause + (self._out_of_memory() if end["signal"] == "SIGKILL" else "")
        reason = self._reported().get(str(rank)) or USUAL_MEANING.get(end["exit_code"])
        return f"{self._call(rank)} exited {end['exit_code']}" + (f" ({reason})" if reason else "")

    def _out_of_memory(self) -> str:
        """In words, that the kernel killed something for want of memory; "" where it did not."""
        for path, now in counters()["memory_groups"](""):
            if now["oom_kills"] > self.memory.get(path, now)["oom_kills"]:
                used = f", of which {now['used_bytes'] >> 20} MiB were used" if "used_bytes" in now else ""
                return f" (out of memory: the limit is {now['limit_bytes'] >> 20} MiB{used})"
        if count_oom_kills() > self.oom_kills:
            return " (the kernel ran out of memory meanwhile and killed a process)"
        return ""

    def _reported(self) -> dict[str, str]:
        try:
            text = os.read(self.reports, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            return {}
        return dict(line.split("\t", 1) for line in text.splitlines())

    def _call(self, *ranks: int) -> str:
        return self.called.format(", ".join(str(rank) for rank in ranks))


def asked_to_end(statuses: Iterable[int]) -> bool:
    """Whether this process was asked to end, too, by whoever asked those that ended so.

    A batch system signals every process of a job, one after the other: a rank's end may be seen first.
    """
    patience_s = 0.2 if any(how(status)["signal"] == "SIGTERM" for status in statuses) else 0.0
    return signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, patience_s) is not None


def how(status: int) -> dict[str, Any]:
    """A wait status as exit code or name of the signal."""
    if os.WIFEXITED(status):
        return {"exit_code": os.WEXITSTATUS(status), "signal": None}
    number = os.WTERMSIG(status)
    real_time = number not in set(signal.Signals)
    return {"exit_code": None, "signal": f"signal {number}" if real_time else signal.Signals(number).name}


def spawn(program: Program, rank: int, reporter: int) -> int:
    """Start a program as the leader of a process group; its process id.

    Plain fork and exec: this process has one thread, so nothing can be locked in the child.
    """
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(program, rank, reporter, keeper)
    with contextlib.suppress(PermissionError, ProcessLookupError):  # it is past exec, or gone, by itself
        os.setpgid(pid, pid)  # here and in the child, so that neither has to wait for the other
    return pid


def become(program: Program, rank: int, reporter: int, keeper: int) -> NoReturn:
    """In the forked child: turn into the program, or report why not and end as a shell would."""
    name = program.argv[0]
    exit_code, doing = 126, f"write {program.log}"
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before the line above
            os._exit(126)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        doing = f"change to {program.cwd}"
        os.chdir(program.cwd)
        if program.cores is not None:
            doing = f"run on cores {program.cores}"
            os.sched_setaffinity(0, program.cores)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec keeps that
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)
        doing = f"execute {name}"
        os.execvpe(name, program.argv, program.env)  # noqa: S606  (no shell is what is wanted)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError) and doing.startswith("execute")
        exit_code = 127 if missing else 126
        reason = f"{name}: not found" if missing else f"can't {doing}: {error}"
        os.write(reporter, f"{rank}\t{reason}\n".encode())
        os.write(2, f"assay: {reason}\n".encode())
    finally:
        os._exit(exit_code)


def send(kill: Callable[[int, int], None], target: int, number: int) -> None:
    """Send a signal to what may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        kill(target, number)


def descendants() -> dict[int, int]:
    """Every process below this one, with its process group."""
    parents, groups = {}, {}
    for entry in os.listdir("/proc"):  # noqa: PTH208  (names are wanted, thousands of them)
        if entry.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                _, parent, group = stat_fields(int(entry))[:3]
                parents[int(entry)], groups[int(entry)] = int(parent), int(group)
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            return {pid: groups[pid] for pid in below - {os.getpid()}}
        below |= more


# What ranks are given ------------------------------------------------------------------------------------


def rank_program(
    spec: Spec, env: dict[str, str], directory: Path, node: int, local: int, cores: list[list[int]] | None
) -> Program:
    """What one rank runs, and with what that is its own."""
    rank = node * spec["ranks"] + local
    own = json.loads(Path(spec["rank_env"], f"{local}.json").read_bytes()) if "rank_env" in spec else {}
    return Program(
        spec["argv"],
        {**env, **own, "RANK": str(rank), "LOCAL_RANK": str(local)},
        spec["cwd"],
        directory / "streams" / f"rank-{rank}.log",
        cores[local] if cores else None,
    )


def job_environment(spec: Spec, node: int, meeting: tuple[str, str]) -> dict[str, str]:
    """Variables that all ranks of a node share. A node is one group of ranks, as torchrun would number it.

    A rendezvous of whoever started Assay must not leak in: TORCHELASTIC_USE_AGENT_STORE, for one, makes
    rank 0 look for a store that nobody serves.
    """
    foreign = ("RANK", "LOCAL_RANK")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TORCHELASTIC_")}
    ranks = spec["ranks"]
    return {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(max(1, int(allowed_cores() // ranks))),
        **{k: v for k, v in inherited.items() if k not in foreign},
        **spec["env"],
        "WORLD_SIZE": str(ranks * spec["nodes"]),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": str(node),
        "NODE_RANK": str(node),
        "MASTER_ADDR": meeting[0],
        "MASTER_PORT": meeting[1],
        "ASSAY_TOKEN": spec["token"],
        "ASSAY_SEED": str(spec["seed"]),
    }


def given_meeting() -> tuple[str, str] | None:
    """Address and port of rank 0 as the environment gives them, under the platform's name or torchrun's."""
    for prefix in ("", "PET_"):
        address, port = (os.environ.get(f"{prefix}MASTER_{what}") for what in ("ADDR", "PORT"))
        if address and port:
            return address, port
    return None


def await_name(address: str, directory: Path) -> tuple[str, str] | None:
    """Wait until the address of rank 0 is known here; state and cause where it is not, or one is to end.

    In a cluster the name of a pod that has just started is known a moment later than the pod runs. A longer
    wait is told in `waiting.json`.
    """
    began = time.monotonic()
    while True:
        try:
            socket.getaddrinfo(address, None)
        except socket.gaierror as error:
            said = error.strerror
        else:
            return None
        waited_s = time.monotonic() - began
        if waited_s > NAME_WAIT_S:
            return "failed", f"rank 0 is to be met at {address}, and after {NAME_WAIT_S:g} s: {said}"
        if waited_s > NAME_TOLD_S:
            write_whole(directory / "waiting.json", {"for": f"the name of rank 0, {address}: {said}"})
        info = signal.sigtimedwait(WAKING - {signal.SIGCHLD}, NAME_EVERY_S)
        if info is not None and info.si_signo in (signal.SIGTERM, signal.SIGINT):
            return "cancelled", "cancelled before the ranks started"


def reserve_port() -> socket.socket:
    """A free TCP port, held until the socket is closed.

    The socket is bound and never listens, with SO_REUSEADDR: Linux then hands the port to nobody who asks
    for a free one, another keeper among them, and still lets rank 0 listen on it, if it sets SO_REUSEADDR
    as torch and nearly every server do. Bound on all addresses, as rank 0's will be.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("0.0.0.0", 0))  # noqa: S104  (it never listens)
    return held


def share(cores: list[int], ranks: int) -> list[list[int]]:
    """Contiguous disjoint sets of equal size; cores that don't divide evenly stay free."""
    size = len(cores) // ranks
    return [cores[rank * size : (rank + 1) * size] for rank in range(ranks)]


def allowed_cores() -> float:
    """Cores that this process may use: its affinity, or its cgroup's quota where that is less."""
    quotas: list[float] = [group["cores"] for _, group in counters()["groups_with_quota"]("")]
    return min([len(os.sched_getaffinity(0)), *quotas])


@functools.cache
def counters() -> dict[str, Any]:
    """What counters.py holds, by name: with -I, Python imports nothing from beside this file."""
    return runpy.run_path(str(Path(__file__).with_name("counters.py")))


# The kernel ----------------------------------------------------------------------------------------------


def read(path: str) -> str:
    """A small file of the kernel's; "" where this kernel has none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def count_oom_kills() -> int:
    """Processes that the kernel killed for want of memory since it started."""
    lines = (line.split() for line in read("/proc/vmstat").splitlines())
    return next((int(value) for name, value in lines if name == "oom_kill"), 0)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; the standard library lacks this call."""
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def stat_fields(pid: int) -> list[str]:
    """`/proc/PID/stat` from the state on: state, parent, group, …; number 19 is the start time in ticks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


# Files ---------------------------------------------------------------------------------------------------


def claim(directory: Path, token: str) -> bool:
    """Take the job for this process; False where it has been taken. A hard link is made once or not."""
    owner = {
        "by": "keeper",
        "token": token,
        "pid": os.getpid(),
        "start_ticks": int(stat_fields(os.getpid())[19]),
        "boot_id": read("/proc/sys/kernel/random/boot_id").strip(),
        "host": socket.gethostname(),
    }
    draft = directory / f"claim.{os.getpid()}"
    draft.write_text(json.dumps(owner))
    try:
        os.link(draft, directory / "claim.json")
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def write_whole(path: Path, value: dict[str, Any]) -> None:
    """A JSON file that is there whole or not at all."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(value))
    beside.replace(path)


def detached() -> int:
    """Go on in a child that nobody waits for; the parent ends once the child has written to this pipe."""
    waiting, telling = os.pipe()
    if os.fork():
        os.close(telling)
        os._exit(0 if os.read(waiting, 1) else EXIT_NOT_OURS)
    os.close(waiting)
    return telling


def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Keeps one node's share of a job.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--node-from", metavar="VARIABLE")
    return parser.parse_args()


if __name__ == "__main__":
    args = asked()
    number = int(os.environ[args.node_from]) if args.node_from else 0
    sys.exit(main(args.directory, detach=args.detach, node=number))

"""Keeps one node's share of a job: starts its ranks, enforces the time limit, reports how each ended.

Runs with only the standard library (3.9 or newer) and what it imports from its own package, so that it works
the same on this machine, in a pod, or under a batch system, and does not depend on whoever started it:

    python -I -S …/assay_payloads/keeping/keeper.py DIRECTORY [--detach] [--node-from VARIABLE]
    python -I -S …/assay_payloads/keeping/keeper.py --serve PROBE SAMPLER

The second form starts a detached keeper for each directory that it reads from standard input (`serve`).
DIRECTORY contains `spec.json` (see `Spec`), and `variables.json` if variables must not be in any file that
stays: the keeper of each node reads its own and removes it. If a job has several nodes, each has a keeper:
the environment variable says which node this one is, from 0, and the keeper's own directory is
DIRECTORY/node-N.
The keeper adds to its directory
  claim.json        it took the job: its process ID, start time, boot ID, and host; created exactly once
  started.json      the ranks are running: time, port, cores
  paused.json       the ranks were suspended and resumed: for how long in all, which moves their time limit
  asked.json        it was asked to end, and ends its ranks: it may be killed before they have ended
  ended.json        how it ended, with size and digest of each stream, and the kernel's counts for the job
                    (counters.py); written last
  streams/NAME.log  what `rank-0`, `rank-1`, … and `probe-0`, `telemetry-0` (one of each per node) print,
                    output and errors together; also of the program that the node runs before its ranks
Each JSON file is written atomically. The keeper exits 0 if all its ranks did, otherwise like the first that
failed (124 at the time limit, 143 when cancelled), so that a platform that watches it ends the other nodes.

No process of the job outlives it. The kernel sends ranks SIGKILL when the keeper dies. When the job
ends, for whatever reason, every process below the keeper gets SIGTERM and is killed after the grace
time, including those that left their process group: as the subreaper, the keeper inherits every orphan.
SIGTERM or SIGINT to the keeper cancels the job.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).parents[2]))  # the package's location, which -I omits
from assay_payloads.keeping import cgroups
from assay_payloads.keeping.counters import between, look
from assay_payloads.keeping.file_tree import THIS_NODE
from assay_payloads.keeping.meeting import Meeting
from assay_payloads.keeping.node_program import run_before
from assay_payloads.keeping.processes import WAKING, Processes, ProcessSpec, end_child, prctl, stat_fields

PR_SET_CHILD_SUBREAPER = 36
ENVIRONMENT = slice(47, 49)  # of `stat_fields`: env_start and env_end of proc(5)
EXIT_NOT_OURS, EXIT_TIMED_OUT, EXIT_CANCELLED = 75, 124, 143

Spec = dict[str, Any]
"""Contents of `spec.json`:

token      in the environment of every process of the job, so that none is ever lost
argv, cwd  of every rank; env: added to the keeper's own environment
ranks      how many on this node; nodes: how many nodes run this many each
seed       passed to ranks as ASSAY_SEED
timeout_s  from the start of the ranks, without time in suspension; grace_s: between SIGTERM and SIGKILL
start_timeout_s  longest time that a node waits for the others before its ranks start
max_output_bytes  that its ranks may print together before they are ended; null: any amount
pin_cpus   each rank on its own cores
rank_env   a directory with LOCAL_RANK.json for each rank: variables of that rank only; optional
probe      module whose `main` is called before the ranks, in its own process, or null; probe_timeout_s
python     the ranks' interpreter, which the probe examines
before     a program that this node runs in DIRECTORY/work before any rank starts: name (of its stream),
           argv, timeout_s, and holds: files to keep locked from before it until the keeper ends; optional
sampler    module whose `main` samples the node beside the ranks, in its own process; optional
sample_every_s  between its samples

The ranks of a job on one node meet at the loopback address and a free port; on several nodes, at MASTER_ADDR
and MASTER_PORT (or PET_MASTER_ADDR, PET_MASTER_PORT) from its environment, keepers first (meeting.py).
"""


def main(directory: Path, *, node: int, taken: int | None = None) -> int:
    """Take the job and keep it to its end; EXIT_NOT_OURS if somebody else has taken it.

    taken  the pipe that gets a byte once the job is taken
    """
    if not (directory / "spec.json").exists():
        return not_ours()
    spec, work = json.loads((directory / "spec.json").read_bytes()), directory / "work"
    if spec["nodes"] > 1:
        directory = directory / f"node-{node}"
        directory.mkdir(exist_ok=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    if not claim(directory, spec["token"]):
        return not_ours()
    if taken is not None:
        os.write(taken, b"+")
        os.close(taken)
    spec["env"].update(taken_variables(directory))
    ended = keep(spec, directory, node, work)
    write_whole(directory / "ended.json", ended)
    return exit_code(ended)


def not_ours() -> int:
    """Report why this keeper does not start the job; returns the exit code."""
    print("the job was abandoned, or taken by another keeper, before this one started", file=sys.stderr)
    return EXIT_NOT_OURS


def taken_variables(directory: Path) -> dict[str, str]:
    """Variables that are in no other file; this file is removed before anything of the job runs."""
    path = directory / "variables.json"
    variables: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
    path.unlink(missing_ok=True)
    return variables


def keep(spec: Spec, directory: Path, node: int, work: Path) -> dict[str, Any]:
    """Run this node's share of the job; returns how it ended, in the form of `ended.json`.

    work  the directory of the job's files
    """
    cores, ranks = sorted(os.sched_getaffinity(0)), spec["ranks"]
    if spec["pin_cpus"] and ranks > len(cores):
        return outcome("failed", f"pin_cpus: {ranks} ranks can't each have one of {len(cores)} cores")
    (directory / "streams").mkdir(exist_ok=True)
    port = reserve_port() if spec["nodes"] == 1 else None
    meeting = ("127.0.0.1", str(port.getsockname()[1])) if port else given_meeting()
    if meeting is None:
        return outcome(
            "failed", "a job on several nodes needs MASTER_ADDR and MASTER_PORT, but they are not set"
        )
    sets = share(cores, ranks) if spec["pin_cpus"] else None
    env = job_environment(spec, node, meeting)
    if sets:
        env["ASSAY_PINNED_CORES"] = "|".join(",".join(map(str, own)) for own in sets)
    try:
        others = Meeting(spec, node, meeting, directory)
    except OSError as error:
        return outcome("failed", f"rank 0 can't listen on port {meeting[1]} of its node: {error.strerror}")
    probe = run_probe(spec, env, directory / "streams" / f"probe-{node}.log") if spec["probe"] else None
    if probe is not None and probe["state"] == "cancelled":
        return outcome("cancelled", "cancelled before the ranks started", probe=probe)
    if "before" in spec and (end := run_before(spec, env, node, work, directory / "streams")) is not None:
        others.close()
        return {**outcome(*end, probe=probe), "streams": digests(directory / "streams")}
    if (not_met := others.wait()) is not None:
        state, cause = not_met
        return {**outcome(state, cause, probe=probe), "waited_in_vain": state == "failed"}
    programs = [rank_program(spec, env, directory, node, local, sets) for local in range(ranks)]
    samplers = [sampler(spec, env, directory / "streams" / f"telemetry-{node}.log")]
    companions = samplers if "sampler" in spec else []
    job = Processes(programs, "rank {}", first=node * ranks, companions=companions)
    before = look()
    job.start()
    stated = {"meeting": ":".join(meeting), "omp_num_threads": env["OMP_NUM_THREADS"], "cores": sets}
    write_whole(directory / "started.json", {"started_at": job.started_at, **stated})
    state, cause = job.run_to_end(
        spec["timeout_s"],
        spec["grace_s"],
        spec["max_output_bytes"],
        lambda: write_whole(directory / "asked.json", {"at": time.time()}),
        lambda paused_s: write_whole(directory / "paused.json", {"paused_s": paused_s}),
        heed_late=True,
    )
    memory = {} if job.peak_rss_bytes is None else {"peak_rss_bytes": job.peak_rss_bytes}
    counted = {**between(before, look()), **memory, "suspended_s": round(job.pauses.total_s(), 3)}
    ended = {"node": counted, "streams": digests(directory / "streams")}
    if state == "succeeded" and job.asked_since():
        state, cause = "cancelled", "cancelled"
    return {**outcome(state, cause, job, probe), **ended}


def exit_code(ended: dict[str, Any]) -> int:
    """The keeper's exit code: 0 only if all ranks succeeded."""
    if ended["state"] == "succeeded":
        return 0
    first = next((end for end in ended["exits"] if end["first"]), None)
    if first is not None:
        return first["exit_code"] or 128 + getattr(signal, first["signal"], signal.SIGTERM)
    return {"timed out": EXIT_TIMED_OUT, "cancelled": EXIT_CANCELLED}.get(ended["state"], 1)


def outcome(
    state: str, cause: str, job: Processes | None = None, probe: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Contents of `ended.json`. The end is the start plus a monotonic duration: their difference is exact."""
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
        "waited_in_vain": False,
    }


def digests(streams: Path) -> dict[str, Any]:
    """Bytes, lines, and SHA-256 of each stream, so that a copy can be verified."""
    by_stream = {}
    for path in sorted(streams.glob("*.log")):
        digest, size, lines = hashlib.sha256(), 0, 0
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                size, lines = size + len(block), lines + block.count(b"\n")
        by_stream[path.stem] = {"bytes": size, "lines": lines, "sha256": digest.hexdigest()}
    return by_stream


def run_probe(spec: Spec, env: dict[str, str], log: Path) -> dict[str, Any]:
    """Run the probe to its end or its time limit. A failure is recorded, but fails nothing."""

    def look_at_node() -> None:
        importlib.import_module(spec["probe"]).main(spec["python"])

    program = ProcessSpec([spec["probe"]], env, spec["cwd"], log, call=look_at_node)
    probe = Processes([program], "the probe")
    probe.start()
    state, cause = probe.run_to_end(spec["probe_timeout_s"], 0.1)
    if state != "succeeded":
        with log.open("a") as file:
            file.write(f"assay: {cause}\n")
    return {"state": state, "cause": cause, "duration_s": probe.duration_s}


def sampler(spec: Spec, env: dict[str, str], log: Path) -> ProcessSpec:
    """The program that samples this node as long as this keeper runs."""
    keeper = os.getpid()

    def sample_node() -> None:
        importlib.import_module(spec["sampler"]).main(keeper, spec["sample_every_s"])

    return ProcessSpec(["the sampler"], env, os.sep, log, call=sample_node)


def rank_program(
    spec: Spec, env: dict[str, str], directory: Path, node: int, local: int, cores: list[list[int]] | None
) -> ProcessSpec:
    """One rank's command and its own settings."""
    rank = node * spec["ranks"] + local
    own = json.loads(Path(spec["rank_env"], f"{local}.json").read_bytes()) if "rank_env" in spec else {}
    return ProcessSpec(
        spec["argv"],
        {**env, **own, "RANK": str(rank), "LOCAL_RANK": str(local)},
        spec["cwd"],
        directory / "streams" / f"rank-{rank}.log",
        cores[local] if cores else None,
    )


def job_environment(spec: Spec, node: int, meeting: tuple[str, str]) -> dict[str, str]:
    """Variables that all ranks of a node share. A node is one group of ranks, as torchrun would number it.

    A rendezvous of the process that started Assay must not leak in: TORCHELASTIC_USE_AGENT_STORE, for one,
    makes rank 0 look for a store that nobody serves.
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
    """Address and port of rank 0 from the environment, under the platform's name or torchrun's."""
    for prefix in ("", "PET_"):
        address, port = (os.environ.get(f"{prefix}MASTER_{what}") for what in ("ADDR", "PORT"))
        if address and port:
            return address, port
    return None


def reserve_port() -> socket.socket:
    """A free TCP port, held until the socket is closed.

    The socket is bound but never listens, with SO_REUSEADDR: Linux then gives the port to nobody who requests
    a free one, such as another keeper, but still lets rank 0 listen on it if it sets SO_REUSEADDR,
    as torch and nearly every server do. It is bound on all addresses, as rank 0's socket will be.
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
    """Cores that this process may use: its affinity, or its cgroup's quota if that is less."""
    quota, allowed = cgroups.cores(THIS_NODE), len(os.sched_getaffinity(0))
    return allowed if quota is None else min(allowed, quota)


def claim(directory: Path, token: str) -> bool:
    """Take the job for this process; False if it has been taken. A hard link is created once or not at all.

    Whoever abandons the job removes everything else, including this draft.
    """
    owner = {
        "by": "keeper",
        "token": token,
        "pid": os.getpid(),
        "start_ticks": int(stat_fields(os.getpid())[19]),
        "boot_id": THIS_NODE.text("/proc/sys/kernel/random/boot_id") or "",
        "host": socket.gethostname(),
    }
    draft = directory / f"claim.{os.getpid()}"
    try:
        draft.write_text(json.dumps(owner))
        os.link(draft, directory / "claim.json")
    except (FileExistsError, FileNotFoundError):
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def write_whole(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(value))
    beside.replace(path)


def serve(probe: str, sampler: str) -> None:
    """Start a detached keeper for each line of standard input, JSON: a job's directory, an environment.

    Each gets one line in reply: 0 once the keeper has taken the job, otherwise how it ended.

    probe, sampler  modules that are imported in advance, so that each keeper has them, with what earlier
                    probes learned
    """
    importlib.import_module(sampler)
    answers = getattr(importlib.import_module(probe), "ANSWERS", None)  # a probe may remember nothing
    gc.freeze()  # so that forked keepers keep sharing this memory
    for line in sys.stdin.buffer:
        if answers is not None:
            answers.take_in()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # keepers whose jobs have ended
                pass
        starting, taken = begun()
        if starting == 0:
            serve_one(taken, **json.loads(line))
        os.write(1, b"%d\n" % how_it_began(starting, taken))


def serve_one(taken: int, directory: str, environment: dict[str, str]) -> NoReturn:
    """In a forked child: be the keeper of this job, in its own session."""
    code = 1
    try:
        os.setsid()
        take_on(environment)
        show_token(environment["ASSAY_TOKEN"])
        log = os.open(f"{directory}/keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(file, stream)
        os.chdir(directory)
        code = main(Path(directory), node=0, taken=taken)
    finally:
        end_child(code)


def take_on(environment: dict[str, str]) -> None:
    """Have these variables and no others; most are the same already, and each change takes a call."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update((name, value) for name, value in environment.items() if os.environ.get(name) != value)


def show_token(token: str) -> None:
    """Make this forked process carry the token like one that was started with it: in /proc/PID/environ.

    There the kernel shows the memory of the initial environment, none of which is in use any more.
    """
    begin, end = map(int, stat_fields(os.getpid())[ENVIRONMENT])
    shown = f"ASSAY_TOKEN={token}\0".encode()
    if len(shown) <= end - begin:
        ctypes.memmove(begin, shown, len(shown))


def begun() -> tuple[int, int]:
    """Fork: the child's ID, 0 in the child, and this one's end of a pipe from it."""
    waiting, telling = os.pipe()
    child = os.fork()
    os.close(telling if child else waiting)
    return child, waiting if child else telling


def how_it_began(child: int, waiting: int) -> int:
    """0 once the child has written to the pipe; if it ends before, its exit code."""
    try:
        if os.read(waiting, 1):
            return 0
    finally:
        os.close(waiting)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def detached() -> int:
    """Continue in a child and return its end of the pipe; the parent ends when the child has begun."""
    child, pipe = begun()
    if child:
        os._exit(how_it_began(child, pipe))
    return pipe


def command_line() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Keeps one node's share of a job.")
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--node-from", metavar="VARIABLE")
    parser.add_argument("--serve", nargs=2, metavar=("PROBE", "SAMPLER"))
    return parser.parse_args()


if __name__ == "__main__":
    args = command_line()
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # if it is ignored, as some daemons leave it, exits go unseen
    if args.serve:
        serve(*args.serve)
        os._exit(0)
    number = int(os.environ[args.node_from]) if args.node_from else 0
    code = main(args.directory, node=number, taken=detached() if args.detach else None)
    os._exit(
        code
    )  # everything is written, and whoever waits for the job need not wait for interpreter shutdown

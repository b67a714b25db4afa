"""The sampler beside every part of a job that Slurm or Kubernetes runs, and what its lines amount to."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Final

from assay import payload_files, shell
from assay.errors import HostError, InputError
from assay.monitor.watching import LONGEST_S, SHORTEST_S, Watching
from assay.telemetry.samples import TelemetrySample
from assay_payloads.sampling.beside import FROM_INPUT

BESIDE: Final = "assay_payloads.sampling.beside"
PYTHON: Final = "python3"  # on the nodes, in the containers
MOST_PLACES: Final = 512
_ASK_S: Final = 30.0
_END_S: Final = 5.0  # for a sampler to end once its input is closed
_WORDS: Final = 5  # last lines of what a program said that ended badly
_JOB_SELECTORS: Final = (
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
)


@dataclass(frozen=True)
class SamplerCommand:
    """A command that starts samplers: one, or one per task with the task's number before each line.

    places  names of what it samples: nodes, or pods
    """

    argv: tuple[str, ...]
    places: tuple[str, ...]
    numbered: bool = False


@dataclass
class WatchedJob:
    """What has been sampled so far, by node or pod.

    failed  place → why its sampler ended
    """

    job: str
    places: dict[str, Watching] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The newest samples of each node or pod, and why others have none."""
        return {
            "job": self.job,
            "places": {
                place: watching.document()
                for place, watching in self.places.items()
                if None in watching.latest
            },
            "failed": dict(self.failed),
        }


def watch(job: str, commands: Sequence[SamplerCommand], for_s: float | None = None) -> Iterator[WatchedJob]:
    """Sample every place until the job ends, or for a time; nothing of the job is changed.

    It yields the same object after each sample of a node. Raises HostError if no sampler could run.
    """
    watched = WatchedJob(job, {place: Watching(0) for command in commands for place in command.places})
    lines: queue.Queue[tuple[SamplerCommand, str]] = queue.Queue()
    end = None if for_s is None else time.monotonic() + for_s
    with ExitStack() as running:
        left = {command: running.enter_context(_started(command, lines)) for command in commands}
        while left and (end is None or time.monotonic() < end):
            wait_s = 0.5 if end is None else max(0.0, min(0.5, end - time.monotonic()))
            try:
                command, line = lines.get(timeout=wait_s)
            except queue.Empty:
                continue
            if not line:
                _note_end(watched, command, *left.pop(command))
            elif _take(watched, command, line):
                yield watched
    if not any(watching.latest for watching in watched.places.values()) and watched.failed:
        place, why = next(iter(watched.failed.items()))
        raise HostError(f"{job}: nothing could be sampled; {place}: {why}")


def _take(watched: WatchedJob, command: SamplerCommand, line: str) -> bool:
    """Whether this line is a sample of a node."""
    place = command.places[0]
    if command.numbered:
        number, _, line = line.partition(": ")
        if not number.strip().isdecimal() or int(number) >= len(command.places):
            return False
        place = command.places[int(number)]
    watching, whole = watched.places[place], False
    for entry in watching.telemetry.read([line]):
        watching.take(entry)
        whole |= isinstance(entry, TelemetrySample) and entry.gpu is None
    return whole


def _note_end(
    watched: WatchedJob, command: SamplerCommand, process: subprocess.Popen[str], stderr_lines: deque[str]
) -> None:
    code = process.wait()
    message = " ".join(" ".join(stderr_lines).split())
    for place in command.places:
        if not watched.places[place].latest:
            watched.failed[place] = message or f"its sampler ended with exit code {code} and said nothing"


@contextmanager
def _started(
    command: SamplerCommand, lines: queue.Queue[tuple[SamplerCommand, str]]
) -> Iterator[tuple[subprocess.Popen[str], deque[str]]]:
    """A process that receives the sampler through its input, and ends with this context."""
    stderr_lines: deque[str] = deque(maxlen=_WORDS)
    try:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"{command.argv[0]}: {error.strerror}; it is needed to reach the job") from error
    assert process.stdin
    assert process.stdout
    assert process.stderr

    def read(stream: IO[str], *, samples: bool) -> None:
        for line in stream:
            if samples:
                lines.put((command, line))
            else:
                stderr_lines.append("".join(c if c.isprintable() else " " for c in line)[:500])
        if samples:
            readers[0].join(_END_S)  # so that what it said is there when its end is noted
            lines.put((command, ""))

    readers = [
        threading.Thread(target=read, args=(stream,), kwargs={"samples": samples}, daemon=True)
        for stream, samples in ((process.stderr, False), (process.stdout, True))
    ]
    for reader in readers:
        reader.start()
    try:
        with suppress(OSError):  # it has ended, and its other streams say why
            process.stdin.write(modules() + "\n")
            process.stdin.flush()
        yield process, stderr_lines
    finally:
        _end(process)
        for reader, stream in zip(readers, (process.stderr, process.stdout), strict=True):
            reader.join(_END_S)
            if not reader.is_alive():  # else what it started holds the stream
                stream.close()


def _end(process: subprocess.Popen[str]) -> None:
    """Close its input, which ends the samplers; then end what does not."""
    assert process.stdin
    with suppress(OSError):  # it has ended already
        process.stdin.close()
    for stop in (process.terminate, process.kill):
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            stop()
        else:
            return
    process.wait()


def modules() -> str:
    """The sampler and what it imports, as `FROM_INPUT` reads it."""
    files = payload_files.files(BESIDE)
    return json.dumps(
        {
            payload_files.module_of(path): [path.endswith("/__init__.py"), source.decode()]
            for path, source in files.items()
        }
    )


def of_slurm(job: str, period_s: float, python: str = PYTHON) -> list[SamplerCommand]:
    """A step of its own beside a running job of Slurm, with one task on each of its nodes.

    Raises InputError if it is no running job of this user, HostError if Slurm can't be asked.
    """
    if not re.fullmatch(r"\d+(_\d+)?", job):
        raise InputError(f"{job!r} is no number of a job; `squeue --me` lists them")
    _check_period(period_s)
    output = _query("squeue", "--noheader", "--jobs", job, "--states", "all", "--format", "%A|%T|%N")
    rows = [line.strip().split("|") for line in output.splitlines() if line.strip()]
    if not rows:
        raise InputError(f"job {job}: Slurm has no such job; `squeue --me` lists yours")
    if len(rows) > 1:
        raise InputError(f"job {job} is an array of {len(rows)} jobs; name one, such as {rows[0][0]}")
    number, state, nodes = rows[0]
    if state != "RUNNING":
        raise InputError(f"job {job} is {state.lower()}; it can be watched while it runs")
    names = tuple(_query("scontrol", "show", "hostnames", nodes).split())
    _check_places(job, len(names))
    argv = (
        "srun", f"--jobid={number}", "--overlap", f"--nodes={len(names)}", f"--ntasks={len(names)}",
        "--ntasks-per-node=1", "--cpus-per-task=1", "--label", "--unbuffered", "--mpi=none",
        *_program(python, "slurm", number, period_s),
    )  # fmt: skip
    return [SamplerCommand(argv, names, numbered=True)]


def of_kubernetes(place: str, period_s: float, python: str = PYTHON) -> list[SamplerCommand]:
    """A process of its own in the first container of every running pod of a job, through `kubectl exec`.

    place  NAMESPACE/JOB, a Job, JobSet, MPIJob or another job of Trainer

    Raises InputError if it has no running pod, HostError if the cluster can't be asked.
    """
    namespace, slash, job = place.partition("/")
    if not slash or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", job):
        raise InputError(f"{place!r} is no job; write it as NAMESPACE/JOB")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", namespace):
        raise InputError(f"{namespace!r} is no namespace; write the job as NAMESPACE/JOB")
    _check_period(period_s)
    pods = _pods(namespace, job)
    if not pods:
        labels = ", ".join(_JOB_SELECTORS)
        raise InputError(f"{place}: no running pod has this job's name in a label ({labels})")
    _check_places(place, len(pods))
    return [
        SamplerCommand(
            (
                "kubectl",
                "exec",
                "--stdin",
                "--quiet",
                f"--namespace={namespace}",
                pod,
                f"--container={container}",
                "--",
                *_program(python, "container", job, period_s),
            ),
            (pod,),
        )
        for pod, container in pods.items()
    ]


def _pods(namespace: str, job: str) -> Mapping[str, str]:
    """The running pods of a job, with the container to look from."""
    for label in _JOB_SELECTORS:
        output = _query(
            "kubectl", "get", "pods", f"--namespace={namespace}", f"--selector={label}={job}", "-o", "json"
        )
        try:
            items: Sequence[Any] = json.loads(output)["items"]
            pods = {
                str(pod["metadata"]["name"]): str(pod["spec"]["containers"][0]["name"])
                for pod in items
                if pod["status"].get("phase") == "Running"
            }
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise HostError(f"kubectl: an answer that is no list of pods ({error!r})") from error
        if pods:
            return dict(sorted(pods.items()))
    return {}


def _program(python: str, where: str, job: str, period_s: float) -> tuple[str, ...]:
    return (python, "-I", "-S", "-c", FROM_INPUT, where, job, f"{period_s:g}")


def _check_period(period_s: float) -> None:
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise InputError(f"every {period_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")


def _check_places(job: str, count: int) -> None:
    if not 0 < count <= MOST_PLACES:
        raise InputError(f"{job} is in {count} places; between 1 and {MOST_PLACES} can be watched at once")


def _query(*argv: str) -> str:
    done = shell.run(argv, timeout_s=_ASK_S)
    if not done.ok:
        lines = done.stderr.strip().splitlines() or [done.words or f"exit code {done.exit_code}"]
        raise HostError(f"{argv[0]}: {lines[-1][:300]}")
    return done.stdout

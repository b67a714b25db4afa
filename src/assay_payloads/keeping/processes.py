"""Programs that run side by side below one process, and of which nothing is left when they end.

Runs with only the standard library (3.9 or newer), next to keeper.py, which uses it to start ranks and probe.
The process that uses it has blocked the signals in WAKING, and is the subreaper of everything that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from assay_payloads.keeping.counters import memory_groups, resident_bytes, virtual_memory_counts
from assay_payloads.keeping.file_tree import THIS_NODE
from assay_payloads.keeping.pauses import Pauses, now

WAKING = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
ASKED = {signal.SIGTERM, signal.SIGINT}  # to end
PR_SET_PDEATHSIG = 1
LOOK_EVERY_S, LOOK_AGAIN_S = (
    0.25,
    0.02,
)  # between checks of log sizes and for pauses, at most and at least: a check takes 30 µs
FASTEST_BYTES_PER_S = 2e9  # at which programs print, into the page cache
ALL_ASKED_S = 0.2  # from a batch system's SIGTERM to a job's first process until its last has it
JUST_ASKED_S = 0.005  # the same for a sender that signals all in one loop, like init
BATCH_SYSTEMS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")  # variables that they set in a job
COMPANIONS_START_S = 0.2  # after the ranks: shorter jobs have none, and their start costs nothing more
COMPANIONS_END_S = 0.1  # for killed companions to be gone, before others are looked for
COPY_GROWS = 1.25  # at most, of a forked child's memory before it executes its program
KILL_WAIT_S = 5.0  # SIGKILL can't be ignored; what is left hangs in the kernel (a driver, a dead NFS server)
USUAL_MEANING = {126: "a program could not be executed", 127: "a program was not found"}
LIBC = ctypes.CDLL(None, use_errno=True)


class ProcessSpec(NamedTuple):
    """What a process becomes; cores None: all cores.

    call  what it does instead of executing `argv`, which is then a name
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    log: Path
    cores: list[int] | None = None
    call: Callable[[], None] | None = None


class Processes:
    """Programs that run side by side and end together; each leads its own process group.

    They are ranks starting at `first`. Their companions start soon after them and are killed after them;
    how a companion ends, or that it can't start, changes nothing for them.
    """

    def __init__(
        self, programs: list[ProcessSpec], called: str, first: int = 0, companions: Iterable[ProcessSpec] = ()
    ) -> None:
        self.programs, self.called, self.first = programs, called, first
        self.companions, self._companion_ids = tuple(companions), set[int]()
        self.running: dict[int, int] = {}  # process id → rank
        self.ended: dict[int, int] = {}  # rank → wait status
        self.first_failed: int | None = None  # among those that nobody asked to end
        self.reports, self.reporter = os.pipe()  # a rank that can't become its program reports why
        self.never_ran: dict[str, str] = {}  # rank → why
        os.set_blocking(self.reports, False)
        self.started_at = self.began = self.duration_s = 0.0
        self.pauses = Pauses()
        self.oom_kills, self.memory = count_oom_kills(), dict(memory_groups(THIS_NODE))
        self._peak_rss_bytes = self._own_rss_bytes = 0

    def start(self) -> None:
        """Start them all."""
        self.started_at, self.began = time.time(), now()
        self._own_rss_bytes = resident_bytes(THIS_NODE)
        for rank, program in enumerate(self.programs, self.first):
            self.running[spawn(program, rank, self.reporter)] = rank

    def run_to_end(
        self,
        timeout_s: float,
        grace_s: float,
        max_output_bytes: int | None = None,
        note_asked: Callable[[], None] = lambda: None,
        note_paused: Callable[[float], None] = lambda _: None,
        *,
        heed_late: bool = False,
    ) -> tuple[str, str]:
        """Wait for the end or cause it; returns state and cause. Afterward none of them is running.

        timeout_s    without the time in which they were suspended
        note_asked   called if this process was asked to end, before it ends them
        note_paused  called when they are resumed, with the seconds that they have been suspended so far
        heed_late    whether they may have ended because they were asked to, before this process was
        """
        state, cause = self._watch(timeout_s, max_output_bytes, note_paused, heed_late)
        if state == "cancelled":
            note_asked()
        self.never_ran = self._reported()
        left = self._end_all(grace_s)
        if self.first_failed is not None:
            cause = self._why_it_failed()
        elif state == "timed out":
            killed = sorted(r for r, status in self.ended.items() if how(status)["signal"] == "SIGKILL")
            if killed:
                cause += f"; {self._call(*killed)} ignored SIGTERM and was killed after {grace_s:g} s"
        if left:
            cause += f"; processes {left} can't be killed: they hang in the kernel"
        return state, cause

    def asked_since(self) -> bool:
        """Whether this process was asked to end just after they did: they may have been asked first."""
        left_s = self.began + self.duration_s + JUST_ASKED_S - now()
        return signal.sigtimedwait(ASKED, max(0.0, left_s)) is not None

    def exits(self) -> list[dict[str, Any]]:
        """How each rank ended; a rank that can't be killed has no entry."""
        first = self.first_failed
        return [
            {"rank": r, **how(self.ended[r]), "first": r == first, "never_ran": str(r) in self.never_ran}
            for r in sorted(self.ended)
        ]

    @property
    def peak_rss_bytes(self) -> int | None:
        """Peak resident memory of the largest of them and of their descendants, at its own peak.

        None if the kernel does not count it, or if it is not clearly more than this process had when it
        started them: until a child executes its program, it is a copy of its parent.
        """
        known = self._peak_rss_bytes > COPY_GROWS * self._own_rss_bytes
        return self._peak_rss_bytes if known else None

    def reap(self) -> bool:
        """Reap whatever ended, including inherited orphans; False when no process is left at all."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid not in self._companion_ids:
                self._peak_rss_bytes = max(self._peak_rss_bytes, used.ru_maxrss * 1024)  # KiB: getrusage(2)
            self._companion_ids.discard(pid)
            if pid in self.running:
                self.ended[self.running.pop(pid)] = status

    def _watch(
        self,
        timeout_s: float,
        max_output_bytes: int | None,
        note_paused: Callable[[float], None],
        heed_late: bool,
    ) -> tuple[str, str]:
        """Wait for their end; records how long they ran."""
        paused_s = 0.0
        while True:
            self.reap()
            self.duration_s = now() - self.began
            failed = [rank for rank, status in self.ended.items() if status != 0]
            if heed_late and (failed or not self.running) and asked_to_end(self.ended.values()):
                return "cancelled", "cancelled"
            if failed:
                self.first_failed = failed[0]
                return "failed", ""
            if not self.running:
                return "succeeded", ""
            left_s = timeout_s + paused_s - self.duration_s
            if left_s <= 0:
                return "timed out", self._why_timed_out(timeout_s, paused_s)
            left_s = min(left_s, LOOK_EVERY_S)
            if max_output_bytes is not None:
                if (printed := self._printed_bytes()) > max_output_bytes:
                    return "failed", too_much(printed, max_output_bytes)
                soonest_full_s = (max_output_bytes - printed) / FASTEST_BYTES_PER_S
                left_s = min(left_s, max(soonest_full_s, LOOK_AGAIN_S))
            if self.companions and self.duration_s >= COMPANIONS_START_S:
                self._start_companions()
            elif self.companions:
                left_s = min(left_s, COMPANIONS_START_S - self.duration_s)
            info = self.pauses.wait(WAKING, left_s)
            self.pauses.look_at(self.running)
            if self.pauses.past_s() > paused_s:
                paused_s = self.pauses.past_s()
                note_paused(paused_s)
            if info is not None and info.si_signo in (signal.SIGTERM, signal.SIGINT):
                self.duration_s = now() - self.began
                return "cancelled", "cancelled"

    def _why_timed_out(self, timeout_s: float, paused_s: float) -> str:
        running = self._call(*sorted(self.running.values()))
        cause = f"{running} was still running at the time limit of {timeout_s:g} s"
        if paused_s:
            cause += f", without the {paused_s:.3g} s in which it was suspended"
        stopped = [rank for pid, rank in self.running.items() if self.pauses.is_stopped(pid)]
        return f"{cause}; {self._call(*sorted(stopped))} was stopped by a signal" if stopped else cause

    def _start_companions(self) -> None:
        self._companion_ids = {spawn(companion, -1, self.reporter) for companion in self.companions}
        self.companions = ()

    def _printed_bytes(self) -> int:
        sizes = 0
        for program in self.programs:
            with contextlib.suppress(FileNotFoundError):  # it has not started
                sizes += program.log.stat().st_size
        return sizes

    def _end_all(self, grace_s: float) -> list[int]:
        """End everything below this process, gently, then by force; returns the process IDs that remain.

        A companion that hangs in the kernel, as a driver's call can, is not waited for.
        """
        for companion in self._companion_ids:
            send(os.kill, companion, signal.SIGKILL)
        if self._none_left(COMPANIONS_END_S if self._companion_ids and not self.running else 0):
            return []
        self._signal_all(signal.SIGTERM)
        if self._none_left(grace_s):
            return []
        give_up = time.monotonic() + KILL_WAIT_S
        while time.monotonic() < give_up:  # repeatedly: a killed process may just have forked
            self._signal_all(signal.SIGKILL)
            if self._none_left(0.02):
                return []
        return sorted(self._others())

    def _others(self) -> set[int]:
        """Every process below this one that is no companion."""
        return descendants().keys() - self._companion_ids

    def _none_left(self, patience_s: float) -> bool:
        until = time.monotonic() + patience_s
        while self.reap():
            if self._companion_ids and not self.running and not self._others():
                return True
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
        return True

    def _signal_all(self, number: int) -> None:
        """Signal the process groups at once, then individually the processes that have left them."""
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
        reason = self.never_ran.get(str(rank)) or USUAL_MEANING.get(end["exit_code"])
        return f"{self._call(rank)} exited {end['exit_code']}" + (f" ({reason})" if reason else "")

    def _out_of_memory(self) -> str:
        """A note that the kernel killed something because it ran out of memory; "" if it did not."""
        for path, counts in memory_groups(THIS_NODE):
            if counts["oom_kills"] > self.memory.get(path, counts)["oom_kills"]:
                used = (
                    f", of which {counts['used_bytes'] >> 20} MiB were used" if "used_bytes" in counts else ""
                )
                return f" (out of memory: the limit is {counts['limit_bytes'] >> 20} MiB{used})"
        if count_oom_kills() > self.oom_kills:
            return " (the kernel ran out of memory in the meantime and killed a process)"
        return ""

    def _reported(self) -> dict[str, str]:
        try:
            text = os.read(self.reports, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            return {}
        return dict(line.split("\t", 1) for line in text.splitlines())

    def _call(self, *ranks: int) -> str:
        return self.called.format(", ".join(str(rank) for rank in ranks))


def too_much(printed_bytes: int, max_output_bytes: int) -> str:
    """Why a job was ended whose ranks printed more than allowed."""
    printed, most = (f"{size / 1e9:.3g} GB" for size in (printed_bytes, max_output_bytes))
    return f"its ranks printed {printed} on one node, but max_output is {most}: print less, or raise it"


def asked_to_end(statuses: Collection[int]) -> bool:
    """Whether this process was asked to end, too, by whoever asked those that ended that way.

    A batch system signals every process of a job, one after the other: a rank's end may be seen first, and
    a rank that handles SIGTERM may succeed. If all did, `asked_since` looks again when the rest is done.
    """
    together = any(name in os.environ for name in BATCH_SYSTEMS)
    killed = any(how(status)["signal"] == "SIGTERM" for status in statuses)
    patience_s = ALL_ASKED_S if together or killed else JUST_ASKED_S if any(statuses) else 0.0
    return signal.sigtimedwait(ASKED, patience_s) is not None


def how(status: int) -> dict[str, Any]:
    """A wait status as an exit code or the name of a signal."""
    if os.WIFEXITED(status):
        return {"exit_code": os.WEXITSTATUS(status), "signal": None}
    number = os.WTERMSIG(status)
    real_time = number not in set(signal.Signals)
    return {"exit_code": None, "signal": f"signal {number}" if real_time else signal.Signals(number).name}


def spawn(program: ProcessSpec, rank: int, reporter: int) -> int:
    """Start a program as the leader of a process group; returns its process ID.

    Plain fork and exec: this process has one thread, so nothing can be locked in the child.
    """
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(program, rank, reporter, keeper)
    with contextlib.suppress(PermissionError, ProcessLookupError):  # it is already past exec, or gone
        os.setpgid(pid, pid)  # here and in the child, so that neither has to wait for the other
    return pid


def become(program: ProcessSpec, rank: int, reporter: int, keeper: int) -> NoReturn:
    """In the forked child: become the program, or report why not and exit like a shell."""
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
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would keep that
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)
        doing = f"execute {name}"
        if program.call is None:
            os.execvpe(name, program.argv, program.env)  # noqa: S606  (no shell is what is wanted)
        os.environ.clear()
        os.environ.update(program.env)
        program.call()
        exit_code = 0
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError) and doing.startswith("execute")
        exit_code = 127 if missing else 126
        reason = f"{name}: not found" if missing else f"can't {doing}: {error}"
        os.write(reporter, f"{rank}\t{reason}\n".encode())
        os.write(2, f"assay: {reason}\n".encode())
    finally:
        end_child(exit_code)


def end_child(exit_code: int) -> NoReturn:
    """End a forked process; an error in it is printed like an interpreter would."""
    if sys.exc_info()[0] is not None:
        sys.excepthook(*sys.exc_info())
    os._exit(exit_code)


def send(kill: Callable[[int, int], None], target: int, number: int) -> None:
    """Send a signal to a process that may have ended in the meantime."""
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


def count_oom_kills() -> int:
    """Processes that the kernel killed for lack of memory since boot."""
    return virtual_memory_counts(THIS_NODE, "oom_kill").get("oom_kill", 0)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; the standard library lacks this call."""
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def stat_fields(pid: int) -> list[str]:
    """`/proc/PID/stat` from the state on: state, parent, group, …; field 19 is the start time in ticks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

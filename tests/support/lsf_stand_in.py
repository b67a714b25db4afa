"""Stands in for LSF 10.1's commands where there is no LSF: its jobs really run, its formats are documented.

    PROGRAM COMMAND [ARGUMENT]...        with LSF_STAND_IN in the environment: the cluster's directory

`state.json` in that directory, written under a lock, holds the cluster: its hosts, which are all this
machine, its queues and its jobs. A job runs below its own process (`sbatchd`), which starts its script on the
first host, keeps its limit, sends the signals of bkill and notes its end. A process belongs to a job by
LSB_JOBID in its environment, as LSF finds it by its process groups: signals reach all of them, ranks too, and
a host that is lost takes those that run there.

Source: IBM Spectrum LSF 10.1 documentation: bsub, bjobs, bkill, bhist, bhosts, bqueues, lsid, blaunch.
"""

from __future__ import annotations

import fcntl
import fnmatch
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

COMMANDS = ("bsub", "bjobs", "bkill", "bhist", "bhosts", "bqueues", "lsid", "blaunch", "badmin")
DIRECTORY = "LSF_STAND_IN"
HOST = "LSF_STAND_IN_HOST"  # on which host a process runs
LOOK_EVERY_S = 0.03
VERSION = "IBM Spectrum LSF Standard 10.1.0.14, Jun 30 2023"
UNFINISHED = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI")
RUNNING = ("RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI")
TERMS = {
    "TERM_OWNER": "job killed by owner",
    "TERM_ADMIN": "job killed by root or LSF administrator",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_MEMLIMIT": "job killed after reaching LSF memory usage limit",
    "TERM_PREEMPT": "job killed after preemption",
    "TERM_CWD_NOTEXIST": "current working directory is not accessible on the execution host",
}
# Options of bsub that take a value
VALUED = {
    "-J",
    "-Jd",
    "-o",
    "-oo",
    "-e",
    "-eo",
    "-n",
    "-R",
    "-W",
    "-gpu",
    "-m",
    "-q",
    "-P",
    "-G",
    "-app",
    "-U",
    "-M",
    "-cwd",
    "-b",
    "-sla",
}
# This file as a program; what is imported is compiled once, a script each time
PROGRAM = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    "from lsf_stand_in import main; sys.exit(main(sys.argv[1], sys.argv[2:]))",
)
Job = dict[str, Any]
State = dict[str, Any]


class Cluster:
    """The state, in its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def make(cls, directory: Path, hosts: Sequence[str], slots: int) -> Cluster:
        """A new one."""
        cluster = cls(directory)
        cluster._write(
            {
                "next": random.randrange(100, 900_000),  # the port where ranks meet depends on it
                "hosts": {name: {"status": "ok", "max": slots} for name in hosts},
                "queues": {"normal": "Open:Active", "gpu": "Open:Active", "old": "Closed:Inact"},
                "jobs": {},
                "kill_interval_s": 1.0,
                "minute_s": 60.0,
                "down": False,
                "slow_s": 0.0,
                "refuses": "",
            }
        )
        return cluster

    def read(self) -> State:
        """As it is now."""
        found: State = json.loads((self.directory / "state.json").read_bytes())
        return found

    @contextmanager
    def changed(self) -> Iterator[State]:
        """The state, to be changed by nobody else meanwhile."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            yield state
            self._write(state)

    def _write(self, state: State) -> None:
        beside = self.directory / f"state.{os.getpid()}"
        beside.write_text(json.dumps(state))
        beside.replace(self.directory / "state.json")

    # What runs

    def dispatch(self) -> None:
        """Start what waits and fits."""
        with self.changed() as state:
            for job in state["jobs"].values():
                if job["stat"] == "PEND":
                    _place(job, state)
            starting = [job for job in state["jobs"].values() if job["stat"] == "RUN" and not job["started"]]
            for job in starting:
                job["started"] = time.time()
        for job in starting:
            subprocess.Popen(
                [*PROGRAM, "sbatchd", str(job["id"])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self.directory / "sbatchd.log").open("ab"),
                start_new_session=True,
                env={**os.environ, DIRECTORY: str(self.directory), HOST: job["hosts"][0]},
            )

    def end(self, job: Job, exit_code: int, term: str) -> None:
        """Note how it ended, and start what waited for its slots."""
        with self.changed() as state:
            found = state["jobs"][str(job["id"])]
            found |= {"stat": "EXIT" if exit_code or term else "DONE", "exit_code": exit_code, "term": term}
            found["ended"] = time.time()
        self.dispatch()

    def processes(self, job_id: int | None = None, host: str | None = None) -> list[int]:
        """Those of a job; of every one, but only on this host; all of the cluster's."""
        wanted = [f"{DIRECTORY}={self.directory}"]
        wanted += [] if job_id is None else [f"LSB_JOBID={job_id}"]
        wanted += [] if host is None else [f"{HOST}={host}"]
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                    if all(one in variables for one in wanted):
                        found.append(int(entry.name))
        return found

    def send(self, number: int, job_id: int | None = None, host: str | None = None) -> None:
        """A signal to each of them."""
        for pid in self.processes(job_id, host):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _place(job: Job, state: State) -> None:
    """Give a waiting job its hosts, or say why it waits."""
    if job["begin"]:
        job["pend_reason"] = "The start time has not yet arrived;"
        return
    used = dict.fromkeys(state["hosts"], 0)
    for other in state["jobs"].values():
        for host in other["hosts"] if other["stat"] in RUNNING else ():
            used[host] += other["ptile"]
    wanted = job["slots"] // job["ptile"]
    able = [host for host in state["hosts"] if not job["wants"] or host in job["wants"]]
    if len(able) < wanted or job["ptile"] > max(one["max"] for one in state["hosts"].values()):
        job["pend_reason"] = "There are no suitable hosts for the job;"
        return
    ready = [
        host
        for host in able
        if state["hosts"][host]["status"] == "ok" and used[host] + job["ptile"] <= state["hosts"][host]["max"]
    ]
    if len(ready) < wanted:
        job["pend_reason"] = "Not enough hosts to meet the job's spanning requirement;"
        return
    job |= {"stat": "RUN", "hosts": ready[:wanted], "pend_reason": ""}


def sbatchd(cluster: Cluster, job_id: int) -> None:
    """Run a job to its end."""
    job = cluster.read()["jobs"][str(job_id)]
    if not Path(job["cwd"]).is_dir():
        cluster.end(job, 2, "TERM_CWD_NOTEXIST")
        return
    script = cluster.directory / f"job.{job_id}.sh"
    script.write_text(job["script"])
    slots = [host for host in job["hosts"] for _ in range(job["ptile"])]
    hostfile = cluster.directory / f"hosts.{job_id}"
    hostfile.write_text("".join(f"{host}\n" for host in slots))
    env = {
        **job["env"],
        DIRECTORY: str(cluster.directory),
        HOST: job["hosts"][0],
        "LSB_JOBID": str(job_id),
        "LSB_JOBINDEX": "0",
        "LSB_JOBNAME": job["name"],
        "LSB_QUEUE": job["queue"],
        "LSB_SUBCWD": job["cwd"],
        "LSB_HOSTS": " ".join(slots),
        "LSB_MCPU_HOSTS": " ".join(f"{host} {job['ptile']}" for host in job["hosts"]),
        "LSB_DJOB_HOSTFILE": str(hostfile),
        "LSB_DJOB_NUMPROC": str(len(slots)),
    }
    if job["gpus"]:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(job["gpus"])))
    shell = job["script"].partition("\n")[0].removeprefix("#!").split() or ["/bin/sh"]
    with Path(job["cwd"], job["output"]).open("ab") as output:
        child = subprocess.Popen(
            [*shell, str(script)],
            cwd=job["cwd"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        term = _watch(cluster, job, child)
        code = child.wait()
        if job["output"] != "/dev/null":
            output.write(
                b"\n------------------------------------------------------------\nSender: LSF System\n"
            )
    cluster.end(job, code if code >= 0 else 128 - code, term)


def _watch(cluster: Cluster, job: Job, child: subprocess.Popen[bytes]) -> str:
    """Until its script has ended; why it was ended, if it was."""
    term, signals, next_at = "", iter(()), 0.0
    while child.poll() is None:
        state = cluster.read()
        now, wanted = state["jobs"][str(job["id"])], ""
        if time.time() - job["started"] > job["limit_min"] * state["minute_s"]:
            wanted = "TERM_RUNLIMIT"
        wanted = now["kill"] or wanted
        if wanted and not term:
            term = wanted
            order = {"TERM_RUNLIMIT": ("USR2", "INT", "TERM", "KILL"), "TERM_MEMLIMIT": ("KILL",)}
            signals = iter(order.get(term, ("INT", "TERM", "KILL")))
        if term and time.monotonic() >= next_at:
            cluster.send(signal.Signals[f"SIG{next(signals, 'KILL')}"], job["id"])
            next_at = time.monotonic() + state["kill_interval_s"]
        time.sleep(LOOK_EVERY_S)
    return term


def blaunch(cluster: Cluster, words: list[str]) -> int:
    """A task on a host of the job: this waits for it and hands it its signals."""
    host, *command = words
    job_id = os.environ.get("LSB_JOBID")
    if job_id is None:
        _fail("blaunch: must be used inside a job")
    state = cluster.read()
    if host not in state["jobs"][job_id]["hosts"]:
        _fail(f"blaunch: Host <{host}> is not one of the hosts allocated to the job")
    if state["hosts"][host]["status"] != "ok":
        _fail(f"{host}: Failed to connect to the host")
    try:
        task = subprocess.Popen(command, env={**os.environ, HOST: host}, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, lambda number, _frame: task.poll() is None and task.send_signal(number))
    code = task.wait()
    return code if code >= 0 else 128 - code


def bsub(cluster: Cluster, words: list[str]) -> int:
    """Read the script from standard input, with the options in it."""
    script = sys.stdin.read()
    lines = [line.removeprefix("#BSUB ") for line in script.splitlines() if line.startswith("#BSUB ")]
    options: dict[str, list[str]] = {}
    given = iter([*(word for line in lines for word in shlex.split(line)), *words])
    for name in given:
        options.setdefault(name, []).append(next(given) if name in VALUED else "")
    last = {name: values[-1] for name, values in options.items()}
    queue = last.get("-q", "normal")
    with cluster.changed() as state:
        if refusal := _refusal(options, last, queue, state):
            print(f"{refusal}. Job not submitted.", file=sys.stderr)
            return 255
        spans = re.search(r"span\[ptile=(\d+)\]", " ".join(options.get("-R", [])))
        slots = int(last.get("-n", "1"))
        number, state["next"] = state["next"], state["next"] + 1
        state["jobs"][str(number)] = {
            "id": number,
            "name": last.get("-J", ""),
            "description": last.get("-Jd", ""),
            "queue": queue,
            "stat": "PSUSP" if "-H" in last else "PEND",
            "pend_reason": "The job was suspended by the user while pending;"
            if "-H" in last
            else "New job is waiting for scheduling;",
            "begin": "-b" in last,
            "slots": slots,
            "ptile": int(spans[1]) if spans else slots,
            "wants": last.get("-m", "").split(),
            "gpus": int((re.search(r"num=(\d+)", last.get("-gpu", "")) or ["", "0"])[1]),
            "limit_min": float(last.get("-W", "1000000")),
            "cwd": last.get("-cwd", str(Path.cwd())),
            "output": last.get("-o", "/dev/null").replace("%J", str(number)),
            "script": script,
            "env": {name: value for name, value in os.environ.items() if name not in (HOST, "LSB_JOBID")},
            "hosts": [],
            "submitted": time.time(),
            "started": None,
            "ended": None,
            "exit_code": None,
            "term": "",
            "kill": "",
            "forgotten": False,
        }
    cluster.dispatch()  # before a word is printed: who asked may be gone, and a job starts all the same
    print("Welcome to the cluster. Please acknowledge it in your publications.")  # as a site's esub prints
    named = f"queue <{queue}>" if "-q" in last else f"default queue <{queue}>"
    print(f"Job <{number}> is submitted to {named}.")
    return 0


def _refusal(options: dict[str, list[str]], last: dict[str, str], queue: str, state: State) -> str:
    if state["refuses"]:
        return str(state["refuses"])
    if queue not in state["queues"]:
        return f"{queue}: No such queue"
    if not state["queues"][queue].startswith("Open"):
        return f"{queue}: Queue has been closed"
    if int(last.get("-n", "1")) > sum(host["max"] for host in state["hosts"].values()):
        return "Too many processors requested"
    if any(one.count("[") != one.count("]") for one in options.get("-R", [])):
        return "Bad resource requirement syntax"
    if unknown := set(last.get("-m", "").split()) - set(state["hosts"]):
        return f"{unknown.pop()}: Bad host name, host group name or cluster name"
    return ""


def bjobs(cluster: Cluster, words: list[str]) -> int:
    """Jobs as JSON, in the fields asked for."""
    options, names = _options(words, {"-o", "-J"})
    if "-json" not in options or "-o" not in options:
        _fail("bjobs: this stand-in knows -json with -o only")
    state = cluster.read()
    jobs = [job for job in state["jobs"].values() if not job["forgotten"]]
    if "-a" not in options and not names:
        jobs = [job for job in jobs if job["stat"] in UNFINISHED]
    if "-J" in options:
        jobs = [job for job in jobs if fnmatch.fnmatchcase(job["name"], options["-J"])]
    fields = options["-o"].split()
    records = [{field.upper(): _field(job, field, state) for field in fields} for job in jobs]
    if names:
        by_id = {str(job["id"]): record for job, record in zip(jobs, records, strict=True)}
        records = [by_id.get(name, {"JOBID": name, "ERROR": f"Job <{name}> is not found"}) for name in names]
    elif not records:
        what = f"Job <{options['-J']}> is not found" if "-J" in options else "No unfinished job found"
        print(what, file=sys.stderr)
        return 255
    _print_json("bjobs", "JOBS", records)
    return 255 if any("ERROR" in record for record in records) else 0


def _field(job: Job, field: str, state: State) -> str:
    on = ":".join(f"{job['ptile']}*{host}" if job["ptile"] > 1 else host for host in job["hosts"])
    unreached = job["stat"] == "RUN" and state["hosts"][job["hosts"][0]]["status"] != "ok"
    term = job["term"]
    known = {
        "jobid": str(job["id"]),
        "stat": "UNKWN" if unreached else job["stat"],
        "job_name": job["name"],
        "exec_host": on,
        "exit_code": str(job["exit_code"] or ""),
        "exit_reason": f"{term}: {TERMS.get(term, 'job killed')}" if term else "",
        "pend_reason": job["pend_reason"],
        "submit_time": _date(job["submitted"]),
    }
    if field not in known:
        _fail(f"bjobs: {field}: unknown field name")
    return known[field]


def bkill(cluster: Cluster, words: list[str]) -> int:
    """End jobs, or send them a signal."""
    options, names = _options(words, {"-s", "-J"})
    worst = 0
    for name in names:
        if name == "0":
            _fail("bkill 0 would end all jobs of this user")
        with cluster.changed() as state:
            job = state["jobs"].get(name)
            if job is None or job["forgotten"]:
                print(f"Job <{name}>: No matching job found", file=sys.stderr)
                worst = 255
                continue
            if job["stat"] not in UNFINISHED:
                print(f"Job <{name}>: Job has already finished", file=sys.stderr)
                worst = 255
                continue
            waits = job["stat"] in ("PEND", "PSUSP")
            term = "TERM_ADMIN" if os.environ.get("LSF_STAND_IN_ADMIN") else "TERM_OWNER"
            if waits:
                job |= {"stat": "EXIT", "term": term, "exit_code": 130, "ended": time.time()}
            elif "-s" not in options:
                job["kill"] = term
                if state["hosts"][job["hosts"][0]]["status"] != "ok":
                    job["stat"] = "ZOMBI"
        if "-s" in options and not waits:
            cluster.send(signal.Signals[f"SIG{options['-s']}"], int(name))
        print(f"Job <{name}> is being {'signaled' if '-s' in options else 'terminated'}")
    return worst


def bhist(cluster: Cluster, words: list[str]) -> int:
    """The whole of a job as text, folded as LSF folds it."""
    _, names = _options(words, {"-n"})
    job = cluster.read()["jobs"].get(names[0])
    if job is None:
        print("No matching job found", file=sys.stderr)
        return 255
    on = " ".join(f"<{job['ptile']}*{host}>" for host in job["hosts"])
    lines = [
        f"Job <{job['id']}>, Job Name <{job['name']}>, Job Description <{job['description']}>, User <me>, "
        f"Project <default>, Command <{job['script'].splitlines()[0]};{job['script'].splitlines()[1]}>",
        f"{_date(job['submitted'])}: Submitted from host <login>, to Queue <{job['queue']}>, "
        f"CWD <{job['cwd']}>;",
    ]
    if job["started"]:
        lines.append(
            f"{_date(job['started'])}: Dispatched {job['slots']} Task(s) on Host(s) {on}, Allocated "
            f"{job['slots']} Slot(s) on Host(s) {on}, Effective RES_REQ <select[type == local]>;"
        )
    if job["ended"]:
        how = "Done successfully" if job["stat"] == "DONE" else f"Exited with exit code {job['exit_code']}"
        lines.append(f"{_date(job['ended'])}: {how}. The CPU time used is 0.1 seconds;")
        why = f"; {job['term']}: {TERMS.get(job['term'], 'job killed')}" if job["term"] else ""
        lines.append(f"{_date(job['ended'])}: Completed <{job['stat'].lower()}>{why};")
    for line in lines:
        for start in range(0, len(line), 79):
            print((" " * 21 if start else "") + line[start : start + 79])
    print("\nSummary of time in seconds spent in various states by  Mon Nov 23 08:00:00")
    print("  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL")
    print("  0        0        1        0        0        0        1")
    return 0


def bhosts(cluster: Cluster, words: list[str]) -> int:
    """Hosts as JSON."""
    options, names = _options(words, {"-o", "-R"})
    state = cluster.read()
    if unknown := set(names) - {*state["hosts"], "rack1"}:
        print(f"{unknown.pop()}: Bad host name, host group name or cluster name", file=sys.stderr)
        return 255
    used = dict.fromkeys(state["hosts"], 0)
    for job in state["jobs"].values():
        for host in job["hosts"] if job["stat"] in RUNNING else ():
            used[host] += job["ptile"]
    records = []
    for name, host in state["hosts"].items():
        if names and name not in names and "rack1" not in names:
            continue
        full = host["status"] == "ok" and used[name] >= host["max"]
        told = {
            "host_name": name,
            "status": "closed_Full" if full else host["status"],
            "max": str(host["max"]),
            "njobs": str(used[name]),
            "run": str(used[name]),
        }
        records.append({field.upper(): told[field] for field in options["-o"].split()})
    _print_json("bhosts", "HOSTS", records)
    return 0


def bqueues(cluster: Cluster, words: list[str]) -> int:
    """Queues as JSON, or one as text."""
    options, names = _options(words, {"-o"})
    queues = cluster.read()["queues"]
    if unknown := set(names) - set(queues):
        print(f"{unknown.pop()}: No such queue", file=sys.stderr)
        return 255
    if "-l" in options:
        print(f"\nQUEUE: {names[0]}\n  -- jobs.\n\nPARAMETERS/STATISTICS\n\nUSERS: all")
        print("HOSTS:  rack1/" if names[0] == "gpu" else "HOSTS:  all")
        return 0
    records = [{"QUEUE_NAME": name, "STATUS": status} for name, status in queues.items()]
    _print_json("bqueues", "QUEUES", records)
    return 0


def lsid(_cluster: Cluster, _words: list[str]) -> int:
    """Who it is."""
    print(f"{VERSION}\nCopyright International Business Machines Corp.\n")
    print("My cluster name is standin\nMy master name is login")
    return 0


def badmin(cluster: Cluster, words: list[str]) -> int:
    """Close and open hosts; `reconfig` looks what can start now."""
    if words == ["reconfig"]:
        cluster.dispatch()
        return 0
    options, names = _options(words[1:], {"-C"})
    with cluster.changed() as state:
        state["hosts"][names[0]]["status"] = "closed_Adm" if words[0] == "hclose" else "ok"
        state["hosts"][names[0]]["comment"] = options.get("-C", "")
    print(f"{'Close' if words[0] == 'hclose' else 'Open'} <{names[0]}> ...... done")
    return 0


def _options(words: list[str], valued: set[str]) -> tuple[dict[str, str], list[str]]:
    options, names, given = {}, [], iter(words)
    for word in given:
        if word.startswith("-"):
            options[word] = next(given) if word in valued else ""
        else:
            names.append(word)
    return options, names


def _print_json(command: str, what: str, records: list[dict[str, str]]) -> None:
    print(json.dumps({"COMMAND": command, what: len(records), "RECORDS": records}, indent=2))


def _date(at: float) -> str:
    return time.strftime("%b %e %H:%M", time.localtime(at))


def _fail(words: str) -> NoReturn:
    print(words, file=sys.stderr)
    raise SystemExit(255)


def main(command: str, words: list[str]) -> int:
    """One command."""
    cluster = Cluster(Path(os.environ[DIRECTORY]))
    if command == "sbatchd":
        sbatchd(cluster, int(words[0]))
        return 0
    if words == ["-V"]:
        print(VERSION, file=sys.stderr)
        return 0
    known: dict[str, Callable[[Cluster, list[str]], int]] = {
        "bsub": bsub,
        "bjobs": bjobs,
        "bkill": bkill,
        "bhist": bhist,
        "bhosts": bhosts,
        "bqueues": bqueues,
        "lsid": lsid,
        "badmin": badmin,
        "blaunch": blaunch,
    }
    state = cluster.read()
    time.sleep(state["slow_s"])
    while command != "blaunch" and cluster.read()["down"]:
        print("LSF is down. Please wait ...", file=sys.stderr, flush=True)
        time.sleep(0.2)
    return known[command](cluster, words)

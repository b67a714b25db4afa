"""One host's side of a job that is started over ssh: each call does one thing and answers in one line.

Runs with only the standard library (3.9 or newer). It is sent, with what it imports, as an argument (see
launch/ssh/connection.py), so that nothing must be on the host beforehand, and a job can be followed whichever
version of Assay has copied it there:

    python -I -S -c … WHAT DIRECTORY [ARGUMENT…]

WHAT is the name of a function in `CALLS`. DIRECTORY is the job's own on this host; `~` is the login user's
home. The answer is `:::ASSAY-HOST {…}`, whatever the login shell prints around it.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay_payloads.keeping import relay
from assay_payloads.keeping.relay import boot_id, keeper_runs, read_json

MARK = ":::ASSAY-HOST "
START_S = 60.0  # a keeper takes 30 ms, but long on a host that is short of memory
SLACK_S = 8.0  # beyond the grace time: the keeper's wait after SIGKILL, plus a margin
OUTPUT_LIMIT_BYTES = 1 << 30
KEEPER = "assay_payloads/keeping/keeper.py"  # below the job's directory

Answer = dict[str, Any]


def lay_out(directory: Path, digest: str) -> Answer:
    """Unpack the job from standard input, atomically; nothing is started.

    Relative paths in its spec are below the job's directory.
    """
    archive = sys.stdin.buffer.read()
    if hashlib.sha256(archive).hexdigest() != digest:
        return {
            "error": f"{len(archive)} bytes of the job arrived, but not as they were sent: the link is bad"
        }
    draft = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        unpack(archive, draft, directory)
        draft.rename(directory)  # fails if it exists, as a job or an abandoned one
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if directory.exists():
            return {"error": "it was submitted or abandoned before", "taken": True}
        return {"error": f"{error.filename or directory}: {error.strerror}"}
    return {}


def unpack(archive: bytes, draft: Path, directory: Path) -> None:
    """Write the job's files into a directory that will be renamed."""
    draft.mkdir(mode=0o700, parents=True)  # the spec may contain a user's secret variables
    (draft / "work").mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(draft)  # noqa: S202  (made by the launcher, which checked the names)
    spec = read_json(draft / "spec.json")
    cwd = draft / spec["cwd"]
    spec["files_before"] = relay.stamps(cwd, spec["outputs"]) if cwd.is_dir() else {}
    spec["cwd"] = str(directory / spec["cwd"])
    (draft / "spec.json").write_text(json.dumps(spec))


def begin(directory: Path, node: str, address: str, port: str) -> Answer:
    """Start the keeper of this host's share; answer when it has taken the job, or ended, or after START_S.

    exit_code  which `launch/job_directory.py` turns into a cause; None if the process has not ended
    """
    variables = {"ASSAY_NODE": node, "MASTER_ADDR": address, "MASTER_PORT": port}
    spec = read_json(directory / "spec.json")
    argv = [sys.executable, "-I", "-S", str(directory / KEEPER), str(directory), "--detach"]
    with (directory / "keeper.log").open("wb") as log:
        starting = subprocess.Popen(
            [*argv, "--node-from", "ASSAY_NODE"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env={**os.environ, **variables, "ASSAY_TOKEN": spec["token"]},
            start_new_session=True,
        )
    with contextlib.suppress(subprocess.TimeoutExpired):
        starting.wait(START_S)
    return {**look(directory), "exit_code": starting.poll(), "waited_s": START_S}


def look(directory: Path) -> Answer:
    """What is known of this host's share of the job."""
    spec = read_json(directory / "spec.json") or {}
    first = spec.get("before", {})
    own = own_directory(directory, spec)
    owner = read_json(own / "claim.json") or {}
    runs = keeper_runs(owner)  # before the end is read: it may end in between
    log = directory / "keeper.log"
    return {
        "there": directory.exists(),
        "nodes": spec.get("nodes"),
        "limit_s": spec.get("timeout_s", 0.0) + spec.get("grace_s", 0.0) + first.get("timeout_s", 0.0),
        "taken": owner.get("by") == "keeper",
        "runs": runs,
        "started": read_json(own / "started.json"),
        "ended": read_json(own / "ended.json"),
        "anew": owner.get("boot_id", boot_id()) != boot_id(),
        "asked": (own / "asked.json").exists(),
        "cancelled": (directory / "cancelled").exists(),
        "said": log.read_text(errors="replace")[-1000:] if log.exists() else "",
    }


def give_up(directory: Path) -> Answer:
    """Take the share so that no keeper can, unless one has; then only this mark remains of it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = own_directory(directory, read_json(directory / "spec.json") or {})
    own.mkdir(exist_ok=True)
    draft = own / f"claim.{os.getpid()}"
    draft.write_text(json.dumps({"by": "nobody"}))
    with contextlib.suppress(FileExistsError):
        os.link(draft, own / "claim.json")
    draft.unlink()
    if (read_json(own / "claim.json") or {}).get("by") == "nobody":
        for path in {*directory.iterdir(), *own.iterdir()} - {own, own / "claim.json"}:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    return look(directory)


def cancel(directory: Path) -> Answer:
    """Record that the run requested the end, unless the share has ended, and end it."""
    if directory.exists() and look(directory)["ended"] is None:
        (directory / "cancelled").touch()
    return end(directory)


def end(directory: Path) -> Answer:
    """Ask the keeper to end its share; if it leaves no report, kill everything with the token."""
    spec = read_json(directory / "spec.json")
    if spec is None:
        return look(directory)
    owner = read_json(own_directory(directory, spec) / "claim.json") or {}
    if keeper_runs(owner):
        for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped keeper handles no signal
            with contextlib.suppress(ProcessLookupError):
                os.kill(owner["pid"], number)
        give_up_at = time.monotonic() + spec["grace_s"] + SLACK_S
        while keeper_runs(owner) and time.monotonic() < give_up_at:
            time.sleep(0.01)
    state = look(directory)
    if state["ended"] is None:
        state["left"] = kill_all(spec["token"], directory.suffix[1:])
    return state


def follow(directory: Path, taken: str) -> Answer:
    """Print in frames, like relay.py, what the share prints beyond what was taken, until it has ended.

    Also ends when standard input does: then nobody is listening.
    """
    spec = read_json(directory / "spec.json")
    if spec is None:
        return {}
    threading.Thread(target=lambda: sys.stdin.buffer.read() or os._exit(0), daemon=True).start()
    own = own_directory(directory, spec)
    owner = read_json(own / "claim.json") or {}
    relay.relay(own, int(directory.suffix[1:]), json.loads(taken), lambda: keeper_runs(owner))
    return {}


def files(directory: Path, *patterns: str) -> Answer:
    """Print in frames, like relay.py, each matching file that the share wrote."""
    spec = read_json(directory / "spec.json")
    if spec is None:
        return {"error": f"nothing is left of the job in {directory}"}
    work = Path(spec["cwd"])
    if problem := relay.no_files(work, patterns):
        return {"error": f"outputs: {problem}"}
    before = {name: tuple(stamp) for name, stamp in spec["files_before"].items()}
    changed = {n: s for n, s in relay.stamps(work, patterns).items() if before.get(n) != s}
    total = sum(size for _, size, _ in changed.values())
    if total > OUTPUT_LIMIT_BYTES:
        return {"error": f"outputs: {total} bytes in {work}; at most {OUTPUT_LIMIT_BYTES} are kept"}
    for name in changed:
        relay.say_file(f"file:{quote(name)}", work / name, {})
    return {"files": len(changed)}


def forget(directory: Path) -> Answer:
    """Remove what is stored of a share that has ended, and what a killed `lay_out` left of it."""
    if look(directory)["runs"]:
        return {"error": "still runs"}
    for left in (directory, *directory.parent.glob(f".{directory.name}.*")):
        if left.exists():
            shutil.rmtree(left)
    return {}


def kept(directory: Path) -> Answer:
    """Each job's directory below this one: whether its keeper is running, and when it last started or ended.

    One that is being unpacked, or never was completely, has the same name between a dot and a process ID.
    """
    shares = {}
    for share in directory.glob("*.*") if directory.is_dir() else ():
        if share.is_dir():
            claim = own_directory(share, read_json(share / "spec.json") or {})
            runs = keeper_runs(read_json(claim / "claim.json") or {})
            shares[share.name] = [runs, max(path.stat().st_mtime for path in (share, claim) if path.exists())]
    return shares


def clock(_directory: Path) -> Answer:
    """Print the time, seconds since the epoch, after each input line."""
    for _ in iter(sys.stdin.readline, ""):
        print(f"time {time.time()!r}", flush=True)
    return {}


OF_A_JOB = (lay_out, begin, look, follow, give_up, cancel, end, files, forget)


def try_out(directory: Path, python: str) -> Answer:
    """Run programs from the files on standard input, one after the other; nothing of them remains.

    Answers with what each printed, and with what can be written where jobs will be.
    """
    request = json.loads(sys.stdin.buffer.read())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    output_by_program = {}
    with tempfile.TemporaryDirectory(dir=directory) as place:
        for name, source in request["files"].items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        for name, *arguments in request["programs"]:
            argv = [python, "-m", name, *arguments]
            env = {**os.environ, **request["env"]}
            done = subprocess.run(argv, env=env, cwd=place, capture_output=True, text=True, check=False)
            output_by_program[name] = f"{done.stdout}\n{done.stderr}"
    return {"said": output_by_program, "free_bytes": shutil.disk_usage(directory).free}


CALLS = {call.__name__: call for call in (*OF_A_JOB, kept, clock, try_out)}


def own_directory(directory: Path, spec: dict[str, Any]) -> Path:
    """The keeper's directory for this host's share: a host's directory has one."""
    return directory if spec.get("nodes", 1) == 1 else directory / f"node-{directory.suffix[1:]}"


def kill_all(token: str, node: str) -> list[int]:
    """Kill every process of the share until none is left; returns those that remain, if any."""
    variables = {f"ASSAY_TOKEN={token}".encode(), f"ASSAY_NODE={node}".encode()}
    give_up_at = time.monotonic() + SLACK_S
    while True:
        remaining = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
                    if variables.issubset((entry / "environ").read_bytes().split(b"\0")):
                        remaining.append(int(entry.name))
                        os.kill(remaining[-1], signal.SIGKILL)
        if not remaining or time.monotonic() > give_up_at:
            return remaining
        time.sleep(0.01)


def main(what: str, directory: str, *arguments: str) -> None:
    """Make the call and print its answer; a disk error is an answer too."""
    try:
        answer = CALLS[what](Path(directory).expanduser(), *arguments)
    except OSError as error:
        answer = {"error": f"{error.filename}: {error.strerror}"}
    print("\n" + MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

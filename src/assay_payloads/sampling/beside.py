"""The sampler beside a job of Slurm or in a container of Kubernetes that somebody else started.

It arrives through standard input, as `FROM_INPUT` reads it, and leaves no file. It ends with the job, or when
standard input is closed: whoever watched has gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable

from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.sampling import sampler
from assay_payloads.sampling.node import JobProcesses, NodeSource

# For `python3 -c`: one line of standard input is the modules as JSON, name → [is a package, source].
FROM_INPUT = """
import importlib.abc, importlib.util, json, sys
modules = json.loads(sys.stdin.readline())
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            return importlib.util.spec_from_loader(name, self, is_package=modules[name][0])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(modules[module.__name__][1], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Finder())
from assay_payloads.sampling import beside
beside.main(*sys.argv[1:])
"""

Find = Callable[[FileTree], "set[int]"]


class FoundProcesses(JobProcesses):
    """A job's processes by a mark that all of them have, because they have no common parent."""

    def __init__(self, tree: FileTree, find: Find) -> None:
        self._find = find
        self._known = find(tree)
        super().__init__(tree, min(self._known, default=-1))

    def runs(self) -> bool:
        """Whether one of the processes still runs."""
        if not any(self._stat(pid)[:1] not in ([], ["Z"], ["X"]) for pid in self._known):
            self._known = self._find(self._tree)
        return bool(self._known)

    def _roots(self) -> Iterable[int]:
        self._known = self._find(self._tree)
        return self._known


def main(where: str, job: str, period_s: str) -> None:
    """Sample the processes of a Slurm job on this node, or of the container that this runs in.

    where  `slurm` or `container`
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=_end_with_input, daemon=True).start()
    tree = FileTree()
    find = (lambda tree: of_slurm(tree, job)) if where == "slurm" else of_container
    processes = FoundProcesses(tree, find)
    problem = "" if processes.runs() else f"no process of {job} is visible here: another user's, or none yet"
    sampler.sample(Watched(tree, processes), float(period_s), problem=problem)


class Watched(NodeSource):
    """A node that is sampled whether or not the job has a process there."""

    def has_job(self) -> bool:
        """Always: the batch system or the container ends this program with the job."""
        return True


def of_slurm(tree: FileTree, job: str) -> set[int]:
    """The processes whose environment names this job, without this program's own step."""
    own, here = os.environ.get("SLURM_STEP_ID", ""), os.environ.get("SLURMD_NODENAME", "")
    pids = set()
    for name in tree.names("/proc", r"\d+$"):
        entries = (tree.text(f"/proc/{name}/environ") or "").split("\0")
        environment = dict(word.split("=", 1) for word in entries if "=" in word)
        if environment.get("SLURM_JOB_ID") != job or environment.get("SLURM_STEP_ID", "-") == own:
            continue
        if environment.get("SLURMD_NODENAME", here) == here:  # several daemons may share a machine
            pids.add(int(name))
    return pids


def of_container(tree: FileTree) -> set[int]:
    """The processes of this container whose parent is outside of it, without this program's own."""
    parents = {}
    for name in tree.names("/proc", r"\d+$"):
        fields = (tree.text(f"/proc/{name}/stat") or "").rpartition(") ")[2].split()
        if len(fields) > 21:
            parents[int(name)] = int(fields[1])
    own = os.getpid()
    while parents.get(own):
        own = parents[own]
    return {pid for pid, parent in parents.items() if parent == 0 and pid != own}


def _end_with_input() -> None:
    while sys.stdin.buffer.read(1 << 16):
        pass
    os._exit(0)

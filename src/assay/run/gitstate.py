"""State of the suite's repository, so that a figure can be traced to what was measured."""

from __future__ import annotations

from pathlib import Path

from assay import shell
from assay.errors import HostError
from assay.records import Scalar


def git_state(directory: Path) -> dict[str, Scalar]:
    """`commit`, `branch` (if a branch is checked out), and `dirty`; empty without a repository or git.

    dirty  tracked files differ from the commit
    """
    try:
        status = shell.run(
            ["git", "-C", str(directory), "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            timeout_s=10,
            env={"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except HostError:  # no git, or a repository that is too slow: the suite's copy is stored anyway
        return {}
    if not status.ok:
        return {}
    state: dict[str, Scalar] = {"dirty": False}
    for line in status.stdout.splitlines():
        match line.split(" "):
            case ["#", "branch.oid", commit]:
                state["commit"] = commit
            case ["#", "branch.head", branch] if branch != "(detached)":
                state["branch"] = branch
            case [mark, *_] if mark != "#":
                state["dirty"] = True
    return state

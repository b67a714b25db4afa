"""Why a trial did not run, or ended early, from the tables that the launchers use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from page_text import spoken, table

from assay.launch.kubernetes.causes import RULES, Rule
from assay.launch.lsf import commands as lsf
from assay.launch.podman import ContainerSystem
from assay.launch.podman import engine as podman
from assay.launch.slurm import commands as slurm
from assay.launch.slurm.commands import PENDING_REMEDIES
from assay.launch.ssh import connection as ssh
from assay.records import Extent

LAUNCHERS = "../how-to/launchers"
EXTENTS = {
    Extent.TRIAL: ("this trial", "The other trials run."),
    Extent.POINT: ("this point", "No other repeat of the point starts."),
    Extent.BENCHMARK: ("its benchmark", "No other trial of the benchmark starts on this system."),
    Extent.SHAPE: ("its shape", "No other trial of the shape starts on this system."),
    Extent.SYSTEM: ("its system", "No other trial starts on this system."),
    Extent.PLACE: ("its system now", "The same, whatever finished on this system before."),
    Extent.PLATFORM: ("the platform", "The run stops with exit code 5. No trial counts as failed."),
}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Failure causes"
    yield "Why a trial did not start, or ended early, as each launcher recognizes it. A message has the"
    yield "cause, the platform's own words, and what to do. The tables are those that the launchers use.\n"
    yield "## Which other trials a cause stops"
    yield "A cause also says which other trials would meet it. Assay doesn't start those; the same command"
    yield "resumes them once you have fixed the cause. [Launchers](../how-to/launchers.md) has the details.\n"
    yield from table(("affects", "then"), EXTENTS.values())
    yield "\n## Kubernetes"
    yield "Assay reads pods, events and objects while the job runs. A cause that waiting can resolve is"
    yield "reported once and ends the trial when the system's `start_timeout` is over; any other cause ends"
    yield "the trial at once. Trials that the platform lost run again, at most `retries` times. For"
    yield "symptoms that pods and events don't show, see"
    yield f"[Kubernetes]({LAUNCHERS}/kubernetes.md#symptoms-that-pods-and-events-dont-show).\n"
    yield from table(
        ("cause", "message", "reasons", "then", "affects", "what to do"), map(_kubernetes_row, RULES)
    )
    yield "\n## Slurm"
    yield f"[Slurm]({LAUNCHERS}/slurm.md) explains the messages of jobs that started. A job in the queue"
    yield "waits, except that Assay removes it after 10 s for a reason that affects other trials, because"
    yield "waiting doesn't help.\n"
    reasons = dict.fromkeys([*slurm.HOPELESS, *PENDING_REMEDIES])
    yield from table(
        ("reason in `squeue`", "affects", "what to do"),
        ((f"`{r}`", _affects(slurm.HOPELESS.get(r)), PENDING_REMEDIES.get(r, "")) for r in reasons),
    )
    yield "\nWhat `sbatch` says when it refuses a job. Any other refusal affects this point.\n"
    yield from _by_words("`sbatch` says", slurm.REFUSALS)
    yield "\n## LSF"
    yield f"[LSF]({LAUNCHERS}/lsf.md) explains the messages of jobs that started. Assay removes a job from"
    yield "the queue after 10 s for a reason that affects other trials.\n"
    yield from _by_words("pending reason", lsf.HOPELESS)
    yield ""
    yield from table(
        ("pending reason", "what to do"), ((spoken(p), words) for p, words in lsf.PENDING_REMEDIES)
    )
    yield "\nWhat `bsub` says when it refuses a job. Any other refusal affects this point.\n"
    yield from _by_words("`bsub` says", lsf.REFUSALS)
    yield "\n## podman and docker"
    yield "A container that doesn't start affects its system; a missing container engine affects the"
    yield "platform.\n"
    yield from table(
        ("the engine says", "what to do"), ((spoken(p), _remedy(words)) for p, words in podman.REMEDIES)
    )
    yield "\n## ssh"
    yield "A host that can't be reached affects the platform.\n"
    yield from table(
        ("`ssh` says", "what to do"), ((spoken(p), words.format(host="HOST")) for p, words in ssh.REMEDIES)
    )


def _kubernetes_row(rule: Rule) -> tuple[str, ...]:
    then = ("ends" if rule.final else "waits") + (", runs again" if rule.platform else "")
    reasons = ", ".join(f"`{reason}`" for reason in rule.reasons.split()[:2])
    return f"`{rule.code}`", _open(rule.what), reasons, then, EXTENTS[rule.extent][0], _open(rule.remedy)


def _open(words: str) -> str:
    """A message with `…` for what the cluster names in it."""
    return re.sub(r"\{\w+\}", "…", words)


def _affects(extent: Extent | None) -> str:
    return "waits" if extent is None else EXTENTS[extent][0]


def _by_words(heading: str, rows: Iterable[tuple[str, Extent]]) -> Iterator[str]:
    yield from table((heading, "affects"), ((spoken(p), EXTENTS[extent][0]) for p, extent in rows))


def _remedy(words: podman.Remedy) -> str:
    """The remedy for a limit that the system already lowers, because other limits depend on this machine."""
    found = re.match(r"(\d)", "7")
    assert found is not None
    return words(found, ContainerSystem(image="IMAGE", ulimits={"nofile": 1024}), "IMAGE")

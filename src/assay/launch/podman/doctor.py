"""Checks of a system whose trials run in containers on this machine. Pure; facts.py collects the facts."""

from __future__ import annotations

from assay.checks import examine as machine
from assay.checks.check import PLACE, Check, Facts, text


def examine(facts: Facts) -> tuple[Check, ...]:
    """Engine, image, and start; if a container started, then all checks of a machine."""
    checks: list[Check] = []
    for check in (engine, image, start):
        checks.append(check(facts))
        if checks[-1].state != "ok":  # nothing after it was examined
            return tuple(checks)
    return (*checks, *machine.examine({**facts, PLACE: "container"}))


def engine(facts: Facts) -> Check:
    """Whether Podman or Docker is installed."""
    missing = text(facts, "container.missing")
    if missing is not None:
        return Check("engine", "fail", missing, _remedy(facts))
    return Check("engine", "ok", text(facts, "container.engine") or "there")


def image(facts: Facts) -> Check:
    """Whether the image is on this machine: trials don't pull it."""
    wrong, name = text(facts, "container.image_error"), text(facts, "container.image")
    if wrong is not None:
        return Check("image", "fail", wrong, _remedy(facts))
    if name is None:
        remedy = "set `image` for the system, so that it can be checked"
        return Check("image", "unknown", "the system names none", remedy)
    digest = (text(facts, "container.image_id") or "").removeprefix("sha256:")[:12]
    return Check("image", "ok", f"{name}, {digest}")


def start(facts: Facts) -> Check:
    """Whether a container with the system's options starts and its interpreter runs."""
    refused = text(facts, "container.refused")
    if refused is not None:
        return Check("container", "fail", refused, _remedy(facts))
    if text(facts, "python.version") is None:
        why = text(facts, "unreadable") or "the probe printed nothing"
        return Check("container", "fail", why, "set `python` to an interpreter of version 3.9 or newer")
    return Check(
        "container", "ok", "starts with the system's options; the following checks are from inside it"
    )


def _remedy(facts: Facts) -> str:
    return text(facts, "container.remedy") or ""

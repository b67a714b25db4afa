"""The pod of every kind: its first process is the relay, which starts the keeper and says what it keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.errors import InputError
from assay.launch.kubernetes import payload
from assay.launch.kubernetes.order import ANNOTATION_TRIAL, Manifest, Order, labels_of

CONTAINER = "ranks"
KEEPER_SLACK_S = 15.0  # beyond the grace time: a keeper's own wait after SIGKILL, and the last frames
DEADLINE_SLACK_S = 30.0


def template(order: Order, *, env: Mapping[str, str], node_from: str | None) -> Manifest:
    """The pod template.

    env        what this kind tells the keeper of where the ranks meet
    node_from  variable by which a pod knows which worker it is, from 0; None where there is one worker
    """
    options = order.options
    return {
        "metadata": {
            "labels": {**options.labels, **labels_of(order.job.token)},
            "annotations": {**options.annotations, ANNOTATION_TRIAL: order.job.trial_id},
        },
        "spec": {
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": math.ceil(options.grace + KEEPER_SLACK_S),
            **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if options.hostNetwork else {}),
            "containers": [_container(order, env, node_from)],
            "volumes": payload.volumes(order.payload),
        },
    }


def deadline_s(order: Order) -> int:
    """Time after which the platform ends a job whose keeper has not: it should never be needed, seconds."""
    return math.ceil(order.job.timeout_s + order.options.grace + KEEPER_SLACK_S + DEADLINE_SLACK_S)


def job_limits(order: Order) -> Manifest:
    """What every Job gets: it is tried once, ended by the platform if all else fails."""
    return {"backoffLimit": 0, "activeDeadlineSeconds": deadline_s(order)}


def command(order: Order, node_from: str | None) -> list[str]:
    """What the container executes, without a shell."""
    relay = [order.options.python, "-I", "-S", f"{payload.PROGRAM_DIR}/relay.py", payload.JOB_DIR, "--keep"]
    return [*relay, "--unpack", payload.SENT_DIR, *(["--node-from", node_from] if node_from else [])]


def _container(order: Order, env: Mapping[str, str], node_from: str | None) -> Manifest:
    image = order.options.image or order.job.task.image
    if image is None:
        raise InputError(
            f"{order.job.trial_id}: this workload names no container image: "
            "name one in the system that has the workload's libraries, like image: pytorch/pytorch:latest"
        )
    return {
        "name": CONTAINER,
        "image": image,
        "command": command(order, node_from),
        "env": [{"name": name, "value": value} for name, value in sorted(env.items())],
        "volumeMounts": payload.mounts(),
    }

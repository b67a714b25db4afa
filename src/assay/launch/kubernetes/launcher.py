"""Runs jobs on Kubernetes and OpenShift, for the `Launcher` protocol.

A job's first ConfigMap owns all of its other objects; it is created first and deleted last. A token is
submitted only once because a ConfigMap of that name can be created only once. A job whose ConfigMap is not
the one it was created with can't start (it mounts keys that the tombstone lacks), and the cluster removes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay import redact
from assay.errors import LaunchError, PlatformError
from assay.launch import job_directory, job_spec
from assay.launch.kubernetes import client, removal
from assay.launch.kubernetes.causes import causes
from assay.launch.kubernetes.client import CONFIG_MAPS, PODS, Cluster, Object, connect
from assay.launch.kubernetes.follow import FollowedJob, Follower
from assay.launch.kubernetes.job_state import REMOVED, SpooledJob
from assay.launch.kubernetes.objects.kind_choice import KindChoices
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.manifests import Manifests, render
from assay.launch.kubernetes.objects.order import TOKEN, Manifest, labels_of, name_of
from assay.launch.kubernetes.objects.pod import nodes_of
from assay.launch.kubernetes.options import KubernetesSystem, with_host_python
from assay.launch.kubernetes.removal import end_job, what_stays
from assay.launch.kubernetes.watch import watch_of
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError, ConflictError, extent_of
from assay.launch.launcher import JobRefusedError, Leftover, PartCheck
from assay.records import Handle, Job, JobState, JobStatus, Output, RenderedJob, Scalar, Shape

SUBMISSION, GIVEN_UP = "assay.dev/submission", "assay.dev/given-up"
KIND, NODES, PODS_OF_JOB = "assay.dev/kind", "assay.dev/nodes", "assay.dev/pods"
HOSTS = "assay.dev/hosts"
SHOWN_TOKEN = "token"  # noqa: S105  (stands for one where a job is shown)


class KubernetesLauncher:
    """Runs jobs on one cluster, in one namespace. `Launcher` documents what each method promises."""

    name = "kubernetes"

    def __init__(self, system: KubernetesSystem, spool: Path) -> None:
        self.system = with_host_python(system)
        self.spool = spool.absolute()
        self._following: dict[str, Follower] = {}
        self._chosen = KindChoices(system.kind)

    def choose(self, shape: Shape) -> str:
        """Which kind `auto` selects on this cluster."""
        return "" if self.system.kind != "auto" else self._chosen.ask(shape, self._cluster())

    def render(self, job: Job) -> RenderedJob:
        """The manifests for `kubectl apply -f -`; with `kind: auto`, a comment gives the kind and why."""
        job = job_spec.without_secrets(replace(job, token=SHOWN_TOKEN))
        system = self.system.model_copy(update={"env": redact.redacted(self.system.env)})
        manifests = render(job, system, self._chosen.kind(job.shape)).yaml()
        env = job_spec.variables(job, system.env)
        files = {file.name: f"sha256:{file.sha256}" for file in job.task.files}
        return RenderedJob(self._chosen.comment(job.shape) + redact.text(manifests), env, files, whole=True)

    def check(self, job: Job) -> Iterator[PartCheck]:
        """What the API server says about each object, sent as a dry run."""
        self.choose(job.shape)
        return _checked(self._cluster(), self._manifests(replace(job, token=SHOWN_TOKEN)))

    def submit(self, job: Job) -> Handle:
        """Create the objects, each owned by the first. If the job is refused, remove what was created."""
        try:
            return self._make(job)
        except PlatformError:
            raise
        except ApiError as error:
            raise JobRefusedError(str(error), extent_of(error)) from error

    def _make(self, job: Job) -> Handle:
        manifests, kind, cluster = self._manifests(job), self._chosen.kind(job.shape), self._cluster()
        annotations = {SUBMISSION: uuid.uuid4().hex, KIND: kind.name}
        annotations |= {NODES: str(job.shape.workers), PODS_OF_JOB: str(kind.expected_pods(job.shape))}
        annotations |= {HOSTS: str(nodes_of(job.shape, self.system) or 0)}
        first, *rest = manifests.objects
        owner = self._create_first(cluster, _annotated(first, annotations), job.token)
        self._collected(job.token).create()
        try:
            for obj in rest:
                _create_owned(cluster, obj, owner)
        except LaunchError:
            with suppress(LaunchError):
                cluster.delete(CONFIG_MAPS, first["metadata"]["name"])
            self._collected(job.token).remove()
            raise
        return self._handle(cluster, job.token, annotations)

    def find(self, token: str) -> Handle | None:
        """The job whose first ConfigMap exists, if its job object exists too; else neither can be again."""
        cluster, name = self._cluster(), _first_name(token)
        first = cluster.find(CONFIG_MAPS, name)
        if first is not None:
            annotations = first["metadata"].get("annotations", {})
            if GIVEN_UP in annotations:
                return None
            handle, collected = self._handle(cluster, token, annotations), self._collected(token)
            known = collected.cancel_asked() or collected.status() is not None
            if known or cluster.find(_resource(handle), name_of(token)) is not None:
                collected.create()
                return handle
            cluster.delete(
                CONFIG_MAPS, name
            )  # requests still in flight create objects that this one owns, so they go with it
        grave = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels_of(token), "annotations": {GIVEN_UP: "true"}},
            "immutable": True,
        }
        try:
            cluster.create(grave)
        except ConflictError:  # created by a concurrent submission, or by this same request, sent twice
            return self.find(token)
        return None

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """Follow the job through the logs of its pods."""
        collected, token = self._collected(handle.token), handle.token
        settled = collected.status()
        if settled is not None and _holds_all(kept, settled):
            return
        cluster = self._cluster_of(handle)
        if not collected.exists and cluster.find(_resource(handle), name_of(token)) is None:
            return
        follower = Follower(cluster, watch_of(cluster), self._followed(handle), collected)
        self._following[token] = follower
        try:
            yield from follower.follow(kept)
        finally:
            self._following.pop(token, None)

    def status(self, handle: Handle) -> JobStatus:
        """From what was collected, otherwise from the cluster; for a waiting job, what it waits for."""
        collected = self._collected(handle.token)
        settled = collected.status()
        if settled is not None:
            return settled
        started_at, follower = collected.started_at(), self._following.get(handle.token)
        if follower is not None:
            state = JobState.PENDING if started_at is None else JobState.RUNNING
            return JobStatus(state, follower.waits_for, started_at=started_at)
        return self._seen(handle, started_at)

    def cancel(self, handle: Handle) -> None:
        """Delete the job object; the cluster tells its pods to end, and kills them after the grace time."""
        collected = self._collected(handle.token)
        if collected.status() is not None or self._has_ended(handle):
            return
        collected.note_cancel()
        self._end(handle)

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From what came with the log: at most 4 MiB per node."""
        for pattern in patterns:
            job_directory.check_output_name(pattern)
        return self._collected(handle.token).files(patterns)

    def forget(self, handle: Handle) -> None:
        """Delete every object of the job, and everything stored about it here."""
        collected = self._collected(handle.token)
        if not collected.exists:
            return
        if not self.status(handle).state.final:
            raise LaunchError(f"job {handle.token} is still running; cancel it first")
        cluster, name = self._cluster_of(handle), name_of(handle.token)
        pods = {f"pod {name}": pod for name, pod in watch_of(cluster).now(handle.token).items()}
        deleted = {
            f"job {name}": cluster.delete(_resource(handle), name),
            f"configmap {name}-0": cluster.delete(CONFIG_MAPS, _first_name(handle.token)),
        }
        collected.remove()
        left = {called: obj for called, obj in deleted.items() if obj is not None}
        if message := what_stays(left | pods):
            raise LaunchError(message)

    def leftovers(self) -> Sequence[Leftover]:
        """Objects in the namespace that carry a token."""
        return removal.leftovers(self._cluster())

    def discard(self, tokens: Collection[str]) -> None:
        """Delete them, whatever they are."""
        removal.discard(self._cluster(), tokens, self.system.grace)

    # What the job is sent as

    def _manifests(self, job: Job) -> Manifests:
        return render(job, self.system, self._chosen.kind(job.shape))

    def _create_first(self, cluster: Cluster, first: Object, token: str) -> Object:
        try:
            return cluster.create(first)
        except ConflictError:
            existing = cluster.get(CONFIG_MAPS, first["metadata"]["name"])
            annotations = existing["metadata"].get("annotations", {})
            if annotations.get(SUBMISSION) == first["metadata"]["annotations"][SUBMISSION]:
                return existing  # the response to the first request was lost
            raise LaunchError(
                f"job {token} was submitted or abandoned before: ConfigMap {first['metadata']['name']} exists"
            ) from None

    # Where it is

    def _cluster(self) -> Cluster:
        return connect(self.system.context, self.system.namespace)

    def _cluster_of(self, handle: Handle) -> Cluster:
        return connect(str(handle.data["context"]), str(handle.data["namespace"]))

    def _collected(self, token: str) -> SpooledJob:
        if TOKEN.fullmatch(token) is None:
            raise ValueError(
                f"{token!r} is not a token: at most 63 letters, digits, dots, dashes, underscores"
            )
        return SpooledJob(self.spool / token)

    def _handle(self, cluster: Cluster, token: str, annotations: Mapping[str, str]) -> Handle:
        data: dict[str, Scalar] = {
            "context": cluster.context,
            "namespace": cluster.namespace,
            "kind": annotations[KIND],
            "nodes": int(annotations[NODES]),
            "hosts": int(annotations[HOSTS]),
            "pods": int(annotations[PODS_OF_JOB]),
        }
        return Handle(self.name, token, data)

    def _followed(self, handle: Handle) -> FollowedJob:
        nodes, hosts, pods = (int(str(handle.data[name])) for name in ("nodes", "hosts", "pods"))
        kind = KINDS[str(handle.data["kind"])]
        name, limit_s, grace_s = name_of(handle.token), self.system.start_timeout, self.system.grace
        return FollowedJob(
            handle.token, name, nodes, hosts, pods, kind, limit_s, grace_s, lambda: self._end(handle)
        )

    # Its state

    def _seen(self, handle: Handle, started_at: float | None) -> JobStatus:
        """The state of a job that nobody follows, from the cluster."""
        cluster, collected = self._cluster_of(handle), self._collected(handle.token)
        job_object = cluster.find(_resource(handle), name_of(handle.token))
        kind = KINDS[str(handle.data["kind"])]
        if job_object is None and collected.cancel_asked():
            return JobStatus(JobState.CANCELLED, "cancelled", started_at=started_at)
        if job_object is None and collected.exists:
            return JobStatus(JobState.STOPPED, REMOVED, started_at=started_at)
        if job_object is None:
            return JobStatus(JobState.LOST, f"nothing is left of the job in namespace {cluster.namespace}")
        ending = kind.ended(job_object)
        if ending is not None:
            state = JobState.SUCCEEDED if ending.succeeded else JobState.FAILED
            return JobStatus(state, "" if ending.succeeded else ending.reason, started_at=started_at)
        pods = cluster.list(PODS, labels=kind.pods(handle.token)).items
        runs = started_at is not None or any(pod["status"].get("phase") == "Running" for pod in pods)
        why = "; ".join(str(cause) for cause in causes(pods, ())[:1])
        return JobStatus(JobState.RUNNING if runs else JobState.PENDING, why, started_at=started_at)

    def _has_ended(self, handle: Handle) -> bool:
        job_object = self._cluster_of(handle).find(_resource(handle), name_of(handle.token))
        return job_object is not None and KINDS[str(handle.data["kind"])].ended(job_object) is not None

    # Its end

    def _end(self, handle: Handle) -> None:
        kind, pods = KINDS[str(handle.data["kind"])], int(str(handle.data["pods"]))
        end_job(self._cluster_of(handle), kind, handle.token, pods=pods, grace_s=self.system.grace)


def _first_name(token: str) -> str:
    return f"{name_of(token)}-0"


def _resource(handle: Handle) -> client.Resource:
    ref = KINDS[str(handle.data["kind"])].job_ref
    return client.Resource(ref.api_version, ref.plural)


def _annotated(obj: Object, annotations: Mapping[str, str]) -> Object:
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}}


def _create_owned(cluster: Cluster, obj: Object, owner: Object) -> None:
    """Create an object that goes when its owner goes. If a lost response hid its creation, it is ours."""
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": uid}
    owned = {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}
    try:
        cluster.create(owned)
    except ConflictError:
        there = cluster.get(cluster.resource_of(obj), obj["metadata"]["name"])
        if uid not in [reference["uid"] for reference in there["metadata"].get("ownerReferences", ())]:
            raise


def _holds_all(kept: Mapping[str, int], settled: JobStatus) -> bool:
    return all(kept.get(name, 0) >= end.bytes for name, end in settled.streams.items())


def _checked(cluster: Cluster, manifests: Manifests) -> Iterator[PartCheck]:
    """One result per object, and one for a pod of each template: pod admission does not see jobs.

    Pod admission covers quotas, limit ranges, Pod Security, SecurityContextConstraints, and webhooks.
    """
    for manifest in (*manifests.objects, *_pods_of_templates(manifests)):
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        try:
            cluster.create(manifest, dry_run=True)
        except ApiUnreachableError:
            raise
        except ApiError as error:
            yield PartCheck(name, str(error))
        else:
            yield PartCheck(name, None)


def _pods_of_templates(manifests: Manifests) -> Iterator[Manifest]:
    """A pod of each of the job object's complete templates."""
    space = manifests.job["metadata"].get("namespace")
    for number, template in enumerate(_templates(manifests.job)):
        metadata = {**template["metadata"], **({"namespace": space} if space else {})}
        metadata["name"] = f"{manifests.name}-pod-{number}"
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _templates(value: Any) -> Iterator[Manifest]:
    """Pod templates at any depth; a patch of one, which names no image, doesn't count."""
    if isinstance(value, list):
        for item in value:
            yield from _templates(item)
    elif isinstance(value, dict):
        containers = value["spec"].get("containers", ()) if isinstance(value.get("spec"), dict) else ()
        if any("image" in container for container in containers):
            yield value
        else:
            yield from _templates([*value.values()])

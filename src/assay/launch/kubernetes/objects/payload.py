"""What is sent with a job, as ConfigMaps: the programs, the keeper's spec, the task's files."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence

from assay import payload_files
from assay.errors import InputError
from assay.launch import job_spec
from assay.launch.kubernetes.objects.order import Manifest, labels_of, name_of
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job
from assay_payloads.keeping.relay import Stamp

PROGRAM_DIR = "/assay/program"
SENT_DIR = "/assay/sent"
JOB_DIR = "/assay/job"
RELAY = "assay_payloads.keeping.relay"
SPEC = "spec.json"
PART_BYTES = 640 * 1024  # 853 KiB in base64; a ConfigMap holds at most 1 MiB
MOST_PARTS = 32  # each is stored in etcd and in the memory of every node that runs the job


def config_maps(
    job: Job, options: KubernetesSystem, programs: tuple[str, ...], more: Mapping[str, str]
) -> list[Manifest]:
    """The first holds programs and spec; each of the others holds one part of the archive.

    programs  to send in addition to those of every job
    more      what the spec contains in addition to what it has for every job

    Raises InputError for files that are larger than ConfigMaps should hold.
    """
    files = payload_files.files(RELAY, *job_spec.PROGRAMS, *programs)
    texts = {_key(path): data.decode() for path, data in files.items()}
    spec = {**_spec(job, options), **more}
    first = _config_map(job, options, 0)
    first["data"] = {**texts, SPEC: json.dumps(spec, indent=1, sort_keys=True)}
    archive = _archive(job)
    parts = [archive[start : start + PART_BYTES] for start in range(0, len(archive), PART_BYTES)]
    if len(parts) > MOST_PARTS:
        raise InputError(
            f"{job.trial_id}: the task's files are {len(archive) >> 20} MiB compressed, but ConfigMaps hold "
            f"{MOST_PARTS * PART_BYTES >> 20} MiB: put large files on a volume and list it under volumes"
        )
    maps = [first]
    for number, part in enumerate(parts):
        of_files = _config_map(job, options, number + 1)
        of_files["binaryData"] = {_part_name(number): base64.b64encode(part).decode()}
        maps.append(of_files)
    return maps


def volumes(config_maps: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """The pod's volumes: programs, files, and the directory that the job runs in."""
    first, *parts = (config_map["metadata"]["name"] for config_map in config_maps)
    programs = [{"key": key, "path": _path(key)} for key in sorted(config_maps[0]["data"]) if key != SPEC]
    sources = [{"configMap": {"name": first, "items": [{"key": SPEC, "path": SPEC}]}}]
    sources += [{"configMap": {"name": name}} for name in parts]
    return (
        {"name": "assay-program", "configMap": {"name": first, "items": programs}},
        {"name": "assay-sent", "projected": {"sources": sources}},
        {"name": "assay-job", "emptyDir": {}},
    )


def mounts() -> list[Manifest]:
    """Where the container mounts them."""
    return [
        {"name": "assay-program", "mountPath": PROGRAM_DIR, "readOnly": True},
        {"name": "assay-sent", "mountPath": SENT_DIR, "readOnly": True},
        {"name": "assay-job", "mountPath": JOB_DIR},
    ]


def program(module: str) -> str:
    """The path of a program in the container."""
    return f"{PROGRAM_DIR}/{payload_files.path_of(module)}"


def _key(path: str) -> str:
    """A file's key in a ConfigMap: the module's name, since keys can't contain slashes."""
    return path.replace("/", ".")


def _path(key: str) -> str:
    return f"{key.removesuffix('.py').replace('.', '/')}.py"


def _part_name(number: int) -> str:
    return f"files.tar.gz.{number:04d}"


def _spec(job: Job, options: KubernetesSystem) -> Manifest:
    nothing_before: dict[str, Stamp] = {}  # the relay looks after it has unpacked
    spec = job_spec.spec(
        job,
        python=options.python,
        cwd=job.task.cwd or f"{JOB_DIR}/work",
        nodes=job.shape.workers,
        grace_s=options.grace,
        start_timeout_s=options.start_timeout,
        pin_cpus=options.pin_cpus,
        files_before=nothing_before,
    )
    return {**spec, "env": job_spec.variables(job, options.env)}


def _config_map(job: Job, options: KubernetesSystem, number: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{name_of(job.token)}-{number}",
            **({"namespace": options.namespace} if options.namespace else {}),
            "labels": {**options.labels, **labels_of(job.token)},
        },
        "immutable": True,
    }


def _archive(job: Job) -> bytes:
    """The task's files as a compressed archive, the same bytes for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(job.task.files, key=lambda file: file.name):
            entry = tarfile.TarInfo(file.name)
            entry.size = len(file.data)
            entry.mode = 0o755 if file.data.startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(file.data))
    return gzip.compress(plain.getvalue(), mtime=0)

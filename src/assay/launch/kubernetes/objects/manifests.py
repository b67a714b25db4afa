"""A job as the objects sent to the API server: pure, the same for an equal job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

from assay.errors import OptionsError
from assay.launch import job_spec
from assay.launch.kubernetes.objects import payload, pod
from assay.launch.kubernetes.objects.kinds import JobKind
from assay.launch.kubernetes.objects.order import TOKEN, Manifest, Order, name_of
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job

_YAML_1_1: Final = re.compile(r"(?i)y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
"""Truths and base 60, which are texts in YAML 1.2."""


@dataclass(frozen=True)
class Manifests:
    """Objects in the order of creation: payload ConfigMaps, a Service if there is one, the job."""

    name: str
    objects: tuple[Manifest, ...]

    @property
    def job(self) -> Manifest:
        """The job object."""
        return self.objects[-1]

    def yaml(self) -> str:
        """The YAML for `kubectl apply -f -`."""
        return as_yaml(self.objects)


def as_yaml(objects: Iterable[Manifest]) -> str:
    """The YAML of objects for `kubectl apply -f -`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import walk_tree

    yaml = YAML(typ="rt")
    yaml.representer.ignore_aliases = lambda _value: True  # a label that two objects share is written twice
    yaml.width = 1 << 30  # a folded command can't be copied
    yaml.indent(mapping=2, sequence=4, offset=2)
    out, documents = StringIO(), _quoted([*objects])
    walk_tree(documents)  # multi-line texts as blocks
    yaml.dump_all(documents, out)
    return out.getvalue()


def _quoted(value: Any) -> Any:
    """The same; texts that kubectl, which reads YAML 1.1, takes for something else are in quotation marks."""
    from ruamel.yaml.scalarstring import SingleQuotedScalarString

    if isinstance(value, Mapping):
        return {key: _quoted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(item) for item in value]
    is_other = isinstance(value, str) and _YAML_1_1.fullmatch(value)
    return SingleQuotedScalarString(value) if is_other else value


def render(job: Job, options: KubernetesSystem, kind: JobKind) -> Manifests:
    """The objects of a job.

    Raises InputError for a task that can't be sent, OptionsError with every option that does not fit the job,
    ValueError if the token is not a valid label value.
    """
    if TOKEN.fullmatch(job.token) is None:
        raise ValueError(
            f"{job.token!r} is not a token: at most 63 letters, digits, dots, dashes, underscores"
        )
    job_spec.check_task(job, options.env, in_cluster=True)
    parts = payload.config_maps(job, options, kind.programs, kind.spec)
    order = Order(job, options, payload.volumes(parts))
    if misfits := [*pod.misfits(order), *kind.misfits(order)]:
        raise OptionsError(misfits)
    return Manifests(name_of(job.token), (*parts, *kind.manifest(order)))

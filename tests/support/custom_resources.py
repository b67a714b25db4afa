"""Others' CustomResourceDefinitions, brought to the test cluster from the Go modules that have them.

They are fetched when a test needs them and never kept here. No operator is behind them: the API server checks
what is sent to it against the real schema, and that is all.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import require
from kubernetes_cluster import kubectl


@dataclass(frozen=True)
class Module:
    """A Go module at one version.

    checksum  as go.sum has it, since the public checksum database does not know every one of these versions
    files     what is taken of it
    """

    path: str
    version: str
    checksum: str
    files: tuple[str, ...]


MODULES = (
    Module(
        "sigs.k8s.io/node-feature-discovery",
        "v0.19.0",
        "h1:9CYm16vjSIbNO5Z1Y67rcrfy51YWmy3+6wjiWzJbrC4=",
        ("deployment/base/nfd-crds/nfd-api-crds.yaml",),
    ),
    Module(
        "github.com/NVIDIA/gpu-operator",
        "v1.8.3-0.20240429200431-0fe1e8db32b0",
        "h1:TAKsaCK4DWp644YsNguY49EE59m3rmpV0W/VZinUgNc=",
        ("config/crd/bases/nvidia.com_clusterpolicies.yaml",),
    ),
    Module(
        "github.com/Mellanox/network-operator",
        "v1.4.0",
        "h1:+ymCYRwPAqN9aCScbKOXSpHDm2MLsf8LUsUSRlHe4N4=",
        ("config/crd/bases/mellanox.com_nicclusterpolicies.yaml",),
    ),
    Module(
        "sigs.k8s.io/kueue",
        "v0.19.0",
        "h1:5yCu85qsJhvUVVxE0Csw546DDBcRwUXpBEOmEFlws34=",
        tuple(
            f"config/components/crd/bases/kueue.x-k8s.io_{name}.yaml"
            for name in ("resourceflavors", "clusterqueues", "localqueues", "topologies")
        ),
    ),
    Module(
        "github.com/operator-framework/api",
        "v0.36.0",
        "h1:6+duRhamCvB540JbvNp/1+Pot7luff7HqdAOm9bAntg=",
        tuple(f"crds/operators.coreos.com_{name}.yaml" for name in ("operatorgroups", "subscriptions")),
    ),
    Module(
        "github.com/openshift/api",
        "v0.0.0-20251117165054-348370f055bf",
        "h1:8VzLlQFneh4bnHA3SS+Bb9VWdVaR7WugtSeqIngMC3s=",
        (
            "machineconfiguration/v1/zz_generated.crd-manifests/"
            "0000_80_machine-config_01_kubeletconfigs.crd.yaml",
            "route/v1/zz_generated.crd-manifests/routes.crd.yaml",
        ),
    ),
    Module(
        "github.com/openshift/cluster-nfd-operator",
        "v0.0.0-20260629131115-e53505ffcb61",
        "h1:Ehnmbf0JYcNE3p48+o4dfjQLconilhS3hlZv5e1SmvU=",
        ("config/crd/bases/nfd.openshift.io_nodefeaturediscoveries.yaml",),
    ),
    Module(
        "github.com/openshift/cluster-node-tuning-operator",
        "v0.0.0-20260209053755-f5fe4460e852",
        "h1:JKB36ppE2JkMoa1Klqi+qDBfatdTx0gjSQILyv/awIc=",
        ("manifests/20-performance-profile.crd.yaml",),
    ),
    Module(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        tuple(
            f"example/prometheus-operator-crd/monitoring.coreos.com_{name}.yaml"
            for name in ("servicemonitors", "podmonitors", "prometheusrules")
        ),
    ),
)


@contextmanager
def brought() -> Iterator[None]:
    """The definitions on the cluster; those that it did not have are gone afterwards.

    One process at a time: another one's tests must not lose them meanwhile.
    """
    files = [directory / name for directory, names in fetched() for name in names]
    path = Path(tempfile.gettempdir()) / "assay-test-definitions.lock"
    with path.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _applied(files, path):
            yield


@contextmanager
def _applied(files: Sequence[Path], noted: Path) -> Iterator[None]:
    """`noted` names what is brought, so that what a killed run left is not taken for the cluster's own."""
    before = _definitions() - set(noted.read_text().split())
    try:
        for file in files:
            kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
            noted.write_text(" ".join(sorted(_definitions() - before)))
        kubectl("wait", "--for=condition=Established", "--timeout=60s", *sorted(_definitions() - before))
        yield
    finally:
        made = sorted(_definitions() - before)
        if made:
            kubectl("delete", "--timeout=180s", *made)
        noted.write_text("")


def _definitions() -> set[str]:
    return set(kubectl("get", "crd", "-o", "name").split())


def fetched() -> list[tuple[Path, tuple[str, ...]]]:
    """Where each module lies, and its files. Skips where Go or the modules can't be had."""
    require("crds", shutil.which("go") is not None, "no `go`, which fetches operators' own definitions")
    unknown = ",".join(module.path for module in MODULES)
    asked = ["go", "mod", "download", "-json", *(f"{module.path}@{module.version}" for module in MODULES)]
    done = subprocess.run(
        asked, env={**os.environ, "GONOSUMDB": unknown}, capture_output=True, text=True, check=False
    )
    require("crds", done.returncode == 0, f"a module can't be fetched: {done.stdout[-2000:]}{done.stderr}")
    answers, rest = [], done.stdout.lstrip()
    while rest:
        answer, end = json.JSONDecoder().raw_decode(rest)
        answers.append(answer)
        rest = rest[end:].lstrip()
    by_path = {answer["Path"]: answer for answer in answers}
    for module in MODULES:
        assert by_path[module.path]["Sum"] == module.checksum, f"{module.path} is not what it was"
    return [(Path(by_path[module.path]["Dir"]), module.files) for module in MODULES]

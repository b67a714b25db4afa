"""A real cluster for tests: the one that ASSAY_TEST_KUBECONFIG points at, in a namespace of their own."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay.launch.kubernetes.options import KubernetesSystem
from conftest import require

IMAGE = os.environ.get("ASSAY_TEST_IMAGE", "assay-test/base:1")  # with Python 3.9 or newer


def kubectl(*args: str, stdin: str = "") -> str:
    """What kubectl says; the test fails where it fails."""
    done = subprocess.run(["kubectl", *args], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
    return done.stdout


def objects(namespace: str, what: str, selector: str = "") -> list[dict[str, Any]]:
    """Objects of a namespace as the API has them."""
    asked = ["-l", selector] if selector else []
    found: list[dict[str, Any]] = json.loads(kubectl("-n", namespace, "get", what, *asked, "-o", "json"))[
        "items"
    ]
    return found


@contextmanager
def namespace(**labels: str) -> Iterator[str]:
    """A namespace that is gone afterwards, and KUBECONFIG set. Skips where there is no cluster."""
    config = os.environ.get("ASSAY_TEST_KUBECONFIG", "")
    require("kubernetes", bool(config), "no cluster: set ASSAY_TEST_KUBECONFIG to its kubeconfig")
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = config
    name = f"assay-test-{uuid.uuid4().hex[:8]}"
    try:
        kubectl("create", "namespace", name)
        if labels:
            kubectl("label", "namespace", name, *(f"{key}={value}" for key, value in labels.items()))
        yield name
    finally:
        subprocess.run(
            ["kubectl", "delete", "namespace", name, "--wait=false"], capture_output=True, check=False
        )
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before


def system(namespace: str, **options: Any) -> KubernetesSystem:
    """Options of a system in that namespace."""
    return KubernetesSystem(
        namespace=namespace, **{"image": IMAGE, "imagePullPolicy": "IfNotPresent", **options}
    )

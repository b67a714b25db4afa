"""Slow nodes become commands that a shell and a cluster take as they are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.node_sweep import keep_off_method, keep_off_methods
from conftest import require
from slurm_cluster import slurm_cluster  # noqa: F401

SLOW = {"node-1": {"matmul": 0.66, "allreduce": 0.5}, "node-2": {"membw": 0.8}}
LAB = {"launcher": "kubernetes", "context": "lab admin"}


def test_kubernetes_has_labels_taints_and_cordon_of_the_cluster_that_was_swept_each_with_its_undo() -> None:
    found = {one.form: one for one in keep_off_methods(LAB, SLOW)}
    assert [*found] == ["names", "labels", "taints", "drain"]
    to = "kubectl --context 'lab admin'"
    assert found["labels"].apply[0] == (f"{to} label node --overwrite node-1 assay.dev/slow=matmul.allreduce")
    assert found["taints"].apply[1] == (
        f"{to} taint node --overwrite node-2 assay.dev/slow=membw:PreferNoSchedule"
    )
    assert found["taints"].undo[1] == f"{to} taint node node-2 assay.dev/slow:PreferNoSchedule-"
    assert found["drain"].apply[0] == f"{to} cordon node-1"


def test_slurm_drains_with_the_reason() -> None:
    drain = keep_off_method({"launcher": "slurm"}, SLOW, "drain")
    assert drain.apply[0] == (
        "scontrol update NodeName=node-1 State=DRAIN "
        "'Reason=assay: matmul at 0.66, allreduce at 0.50 of similar nodes'"
    )
    assert drain.undo == tuple(f"scontrol update NodeName={node} State=RESUME" for node in SLOW)


def test_lsf_closes_hosts_with_the_reason() -> None:
    drain = keep_off_method({"launcher": "lsf"}, SLOW, "drain")
    assert (
        drain.apply[0]
        == "badmin hclose -C 'assay: matmul at 0.66, allreduce at 0.50 of similar nodes' node-1"
    )
    assert drain.undo == tuple(f"badmin hopen {node}" for node in SLOW)


def test_what_a_cluster_has_not_is_refused_with_what_it_has() -> None:
    with pytest.raises(InputError, match="slurm has no form taints; use names, drain"):
        keep_off_method({"launcher": "slurm"}, SLOW, "taints")
    assert keep_off_method({"launcher": "ssh"}, SLOW, "names").apply == ("node-1", "node-2")


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(node=NAMES, what=NAMES)
def test_whatever_a_name_holds_the_shell_gets_it_as_one_word(node: str, what: str) -> None:
    slow = {node: {what: 0.5}}
    (drain,) = keep_off_method({"launcher": "slurm"}, slow, "drain").apply
    assert shlex.split(drain)[2] == f"NodeName={node}"
    (label,) = keep_off_method(LAB, slow, "labels").apply
    words = shlex.split(label)
    assert words[-2] == node
    assert re.fullmatch(r"assay\.dev/slow=([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", words[-1])


@pytest.mark.kubernetes
def test_the_api_server_takes_each_command_and_its_undo_as_they_are() -> None:
    """As dry runs of the server: nothing on the nodes is changed."""
    config = os.environ.get("ASSAY_TEST_KUBECONFIG", "")
    require("kubernetes", Path(config).is_file(), "ASSAY_TEST_KUBECONFIG names no cluster")
    asked = ["kubectl", "--kubeconfig", config, "get", "nodes", "-o", "name"]
    known = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
    node = known.split()[0].removeprefix("node/")
    for way in keep_off_methods({"launcher": "kubernetes"}, {node: {"matmul": 0.5, "all reduce": 0.7}})[1:]:
        (apply,), (undo,) = way.apply, way.undo
        for command in (apply, undo):
            argv = [*shlex.split(command), "--kubeconfig", config, "--dry-run=server"]
            done = subprocess.run(argv, capture_output=True, check=False, text=True)
            absent = command == undo and "not found" in done.stderr
            assert done.returncode == 0 or absent, f"{command}: {done.stderr}"


@pytest.mark.slurm
@pytest.mark.disruptive
@pytest.mark.usefixtures("slurm_cluster")
def test_slurm_drains_a_node_for_the_reason_given_and_takes_it_back() -> None:
    node = subprocess.run(["sinfo", "-hN", "-o", "%N"], capture_output=True, check=True, text=True)
    name = node.stdout.split()[0]
    drain = keep_off_method({"launcher": "slurm"}, {name: {"membw": 0.5}}, "drain")
    (apply,), (undo,) = drain.apply, drain.undo
    try:
        subprocess.run(shlex.split(apply), check=True)
        told = subprocess.run(["scontrol", "show", "node", name], capture_output=True, check=True, text=True)
    finally:
        subprocess.run(shlex.split(undo), check=True)
    assert "+DRAIN" in told.stdout
    assert "Reason=assay: membw at 0.50 of similar nodes" in told.stdout

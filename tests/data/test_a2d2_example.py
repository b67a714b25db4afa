"""examples/a2d2: frames in A2D2's layout from its program, and the whole way from a scan to a validation."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kubernetes_cluster as cluster
from assay import api
from command_line import typed
from conftest import ROOT, require

EXAMPLE = ROOT / "examples" / "a2d2"


def make(directory: Path, frames: int, *more: str) -> Path:
    program = [
        sys.executable,
        str(EXAMPLE / "make_frames.py"),
        str(directory),
        "--frames",
        str(frames),
        *more,
    ]
    subprocess.run(program, check=True, capture_output=True)
    return directory


def test_its_frames_have_the_layout_and_are_the_same_for_a_seed(tmp_path: Path) -> None:
    require("pyspng", importlib.util.find_spec("pyspng") is not None, "install the extra `data`")
    root = make(tmp_path / "a", 8, "--scenes", "2", "--size", "32", "48")
    again = make(tmp_path / "b", 8, "--scenes", "2", "--size", "32", "48")
    files = sorted(path.relative_to(root) for path in root.rglob("*.*"))
    assert files == sorted(path.relative_to(again) for path in again.rglob("*.*"))
    assert all((root / path).read_bytes() == (again / path).read_bytes() for path in files)
    assert len(json.loads((root / "class_list.json").read_text())) == 55
    done = api.scan_data(root, catalog=tmp_path / "c.duckdb", processes=1)
    assert (done.read, done.damaged, done.orphans) == (8, 0, ())
    answer = api.query_data_sql(
        "SELECT count(DISTINCT scene), count(DISTINCT camera), count(taken_us), sum(unknown) FROM frames",
        catalog=tmp_path / "c.duckdb",
    )
    assert answer.rows == ((2, 3, 8, 0),)


def test_its_suites_are_plans(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "a2d2")
    for suite in ("small", "scan-pods", "validate-pods"):
        ran = typed(tmp_path, f"assay plan examples/a2d2/{suite}.yaml")
        assert ran.returncode == 0, ran.stderr


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.long
def test_the_whole_way_of_its_page_works(tmp_path: Path) -> None:
    for name in ("torch", "segmentation_models_pytorch", "pyspng", "ray"):
        require(name, importlib.util.find_spec(name) is not None, "install `training`, `data` and `ray`")
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "a2d2")
    page = (EXAMPLE / "README.md").read_text()
    section = page[page.index("## The whole way") : page.index("### On Kubernetes pods")]
    lines = [
        line
        for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) > 10
    env = {"ASSAY_CATALOG": str(tmp_path / "build" / "a2d2.duckdb")}
    for line in lines:
        if line.startswith(("pip install", "export ")):
            continue
        ran = typed(tmp_path, line, env=env)
        assert ran.returncode == 0, f"{line}: {ran.stderr}"
    result = json.loads((tmp_path / "build" / "validated" / "result.json").read_text())
    assert result["unreadable"] == 0
    assert result["pixel_accuracy"] > 0.5
    cameras = {group["value"]: group["mean_iou"] for group in result["groups"] if group["column"] == "camera"}
    assert len(cameras) == 3
    assert "data:image/jpeg" in (tmp_path / "build" / "validated.html").read_text()


@pytest.mark.kubernetes
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.long
def test_the_way_in_pods_gives_the_counts_of_this_machine(tmp_path: Path) -> None:
    for name in ("torch", "segmentation_models_pytorch", "pyspng"):
        require(name, importlib.util.find_spec(name) is not None, "install `training` and `data`")
    folder, data = tmp_path / "examples" / "a2d2", tmp_path / "data"
    shutil.copytree(EXAMPLE, folder)
    make(data / "camera_lidar_semantic", 48, "--scenes", "4")
    for suite in folder.glob("*-pods.yaml"):
        suite.write_text(
            suite.read_text().replace("/data", str(data)).replace("max_epochs: 6", "max_epochs: 1")
        )
    with cluster.namespace() as namespace:
        cluster.need_nodes_here()
        sources = ROOT / "src"  # where this environment finds Assay, if it was installed to be edited
        mounted = [{"hostPath": str(path), "mountPath": str(path)} for path in (data, sources)]
        pods = {"launcher": "kubernetes", "namespace": namespace, "image": cluster.IMAGE, "python": "host"}
        pods |= {"imagePullPolicy": "IfNotPresent", "runAsUser": 0}
        pods |= {"volumes": [*mounted, {"emptyDir": "Disk", "mountPath": "/scratch"}]}
        (folder / "systems.yaml").write_text(json.dumps({"pods": pods}))
        page = (EXAMPLE / "README.md").read_text()
        section = page[page.index("### On Kubernetes pods") : page.index("With the KubeRay operator")]
        first, second = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
        (tmp_path / "build").mkdir()
        for line in first.splitlines():
            ran = typed(tmp_path, line)
            assert ran.returncode == 0, f"{line}: {ran.stdout} {ran.stderr}"
    shutil.copy(data / "a2d2-trained" / "trained.pt", tmp_path)
    assert len(list((tmp_path / "runs").glob("a2d2-validation/*/*/attempt-1/logs/rank-*.log"))) == 2
    for line in (second, "assay data validate trained.pt build/all.jsonl --into build/here --workers 1"):
        ran = typed(tmp_path, line)
        assert ran.returncode == 0, f"{line}: {ran.stderr}"
    in_pods, here = (
        json.loads((tmp_path / "build" / into / "result.json").read_text())
        for into in ("validated-pods", "here")
    )
    assert in_pods["matrix"] == here["matrix"]
    assert in_pods["validated"] == 48

"""A network over all frames of a manifest: counts that don't depend on the workers, kept through kills."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import made_a2d2
import ray_cluster
import s3_server
import validated_network
from assay import api
from assay.data import validated_frames
from assay.data.validation import ABOUT, CHUNKS, FRAMES, RESULT
from assay.errors import BusyError, InputError
from assay.frame_manifest import write_manifest
from command_line import assay as typed
from conftest import require

pytestmark = [pytest.mark.torch, pytest.mark.slow]
COUNT, CHUNK = 22, 4
UNREADABLE = 5  # a frame whose image is cut


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a2d2: a data set with a damaged image; c.duckdb, m.jsonl: its catalog and manifest; net.pt"""
    for name in ("torch", "segmentation_models_pytorch", "pyspng"):
        require(name, importlib.util.find_spec(name) is not None, "install the extras `training` and `data`")
    here = tmp_path_factory.mktemp("validate")
    root = made_a2d2.make(here / "a2d2", frames=COUNT, height=32, width=64)
    api.scan_data(root, catalog=here / "c.duckdb", processes=1)
    write_manifest(here / "m.jsonl", api.query_data("", catalog=here / "c.duckdb"))
    image = made_a2d2.file(root, UNREADABLE, "camera")
    image.write_bytes(image.read_bytes()[:-300])
    validated_network.checkpoint(here / "net.pt")
    return here


@pytest.fixture(scope="module")
def validated(made: Path) -> dict[str, Any]:
    """The validation's own document, by one worker."""
    return validate(made, "once", "--by", "width", "--catalog", str(made / "c.duckdb"), "--page", "page.html")


def validate(made: Path, into: str, *more: str, code: int = 1) -> dict[str, Any]:
    words = ["data", "validate", "net.pt", "m.jsonl", "--into", into, "--json"]
    ran = typed(
        made,
        *words,
        *(() if "--chunk-frames" in more else ("--chunk-frames", str(CHUNK))),
        *(() if {"--workers", "--ray"} & {*more} else ("--workers", "1")),
        *more,
    )
    assert ran.returncode == code, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout) if code < 2 else {"stderr": ran.stderr}
    return found


def test_counts_are_those_of_the_network_itself(made: Path, validated: dict[str, Any]) -> None:
    import torch
    from PIL import Image

    from assay_payloads.training.segmentation import Colors, pixel_scores
    from assay_payloads.training.validator import trained

    colors = Colors(made / "a2d2" / "class_list.json", reduced=True)
    network = trained(made / "net.pt").network(20)
    expected = np.zeros((20, 20), dtype=np.int64)
    for number in range(COUNT):
        if number == UNREADABLE:
            continue
        image, label = (
            torch.tensor(np.array(Image.open(made_a2d2.file(made / "a2d2", number, kind)))).permute(2, 0, 1)
            for kind in ("camera", "label")
        )
        with torch.inference_mode():
            predicted = pixel_scores(network, image[None]).argmax(1).numpy()
        true = colors.classes(label).flatten().numpy()
        np.add.at(expected, (true[true < 20], predicted[true < 20]), 1)
    counted = np.array(validated["matrix"])
    assert abs(counted - expected).sum() <= 2 * COUNT  # floats of another batch size may tip a pixel
    assert counted.sum() == expected.sum() == (COUNT - 1) * (32 * 64 - made_a2d2.UNKNOWN_PIXELS)
    assert validated["unknown"] == (COUNT - 1) * made_a2d2.UNKNOWN_PIXELS
    right, true, predicted = counted.diagonal(), counted.sum(1), counted.sum(0)
    ious = {
        name: right[at] / (true[at] + predicted[at] - right[at]) if true[at] else None
        for at, name in enumerate(validated["about"]["names"])
    }
    assert {one["name"]: one["iou"] for one in validated["classes"]} == pytest.approx(ious)
    assert validated["mean_iou"] == pytest.approx(np.mean([iou for iou in ious.values() if iou is not None]))
    assert validated["pixel_accuracy"] == pytest.approx(right.sum() / true.sum())


def test_a_frame_that_cant_be_read_is_named_and_counted(made: Path, validated: dict[str, Any]) -> None:
    assert (validated["validated"], validated["unreadable"]) == (COUNT - 1, 1)
    (frame,) = validated["unreadable_frames"]
    assert frame["label"].endswith(made_a2d2.file(made, UNREADABLE, "label").name)
    assert "can't be read" in frame["why"]
    rows = duckdb.sql(f"SELECT count(*), count(unreadable) FROM '{made / 'once' / FRAMES}'").fetchall()
    assert rows == [(COUNT, 1)]


def test_groups_add_up_to_the_whole(made: Path, validated: dict[str, Any]) -> None:
    by = {}
    for group in validated["groups"]:
        by.setdefault(group["column"], []).append(group)
    assert {column: len(groups) for column, groups in by.items()} == {"scene": 2, "camera": 1, "width": 1}
    assert all(sum(g["frames"] for g in groups) == COUNT - 1 for groups in by.values())
    whole = {one["name"]: one["iou"] for one in validated["classes"]}
    assert by["width"][0]["value"] == "64"
    assert by["width"][0]["ious"] == pytest.approx(whole)


def test_frames_keep_their_figures(made: Path, validated: dict[str, Any]) -> None:
    low, high, sums = duckdb.sql(
        f"SELECT min(entropy_bits), max(entropy_bits), sum(sky_true) FROM '{made / 'once' / FRAMES}'"
    ).fetchall()[0]
    assert 0 < low < high <= np.log2(20)
    (sky,) = (one for one in validated["classes"] if one["name"] == "Sky")
    assert sums == sky["true"]
    worst = [one["mean_iou"] for one in validated["worst"]]
    assert worst == sorted(worst)


def test_the_page_shows_the_worst_frames_and_says_what_is_missing(
    made: Path, validated: dict[str, Any]
) -> None:
    page = (made / "page.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 3 * len(validated["worst"])
    assert "img-src data:" in page
    assert "no intervals: they need 8 scenes" in page
    assert "1 frame can't be read" in page.replace("&#x27;", "'")
    assert validated["unreadable_frames"][0]["label"] in page
    assert "Bicycle" in page


def test_a_second_call_computes_nothing_and_gives_the_same(made: Path, validated: dict[str, Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in (made / "once" / CHUNKS).iterdir()}
    again = validate(made, "once", "--by", "width", "--catalog", str(made / "c.duckdb"))
    assert again == validated == json.loads((made / "once" / RESULT).read_text())
    assert before == {path: path.stat().st_mtime_ns for path in (made / "once" / CHUNKS).iterdir()}


def test_of_too_many_groups_the_worst_are_kept(
    made: Path, validated: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validated_frames, "MOST_GROUPS", 1)
    found = api.validate_data(
        made / "net.pt", made / "m.jsonl", made / "once", chunk_frames=CHUNK, workers=1,
        by=["width"], catalog=made / "c.duckdb",
    )  # fmt: skip
    [kept] = [group for group in found.groups if group.column == "scene"]
    scenes = [group for group in validated["groups"] if group["column"] == "scene"]
    assert kept.value == min(scenes, key=lambda group: group["mean_iou"])["value"]
    assert found.more_groups == ("scene",)
    (made / "once" / RESULT).write_text(json.dumps(validated))


@pytest.mark.long
def test_a_damaged_or_foreign_chunk_is_computed_again(made: Path, validated: dict[str, Any]) -> None:
    chunks = made / "once" / CHUNKS
    kept = {path.name: path.read_bytes() for path in chunks.iterdir()}
    (chunks / "0000000.json").write_bytes(kept["0000000.json"][:-40])
    (chunks / "0000001.json").write_bytes(kept["0000002.json"])
    lied = json.loads(kept["0000003.json"])
    lied["confusion"][0][2] += 1
    (chunks / "0000003.json").write_text(json.dumps(lied))
    again = validate(made, "once")
    assert again["matrix"] == validated["matrix"]
    assert {path.name: path.read_bytes() for path in chunks.iterdir()} == kept


@pytest.mark.long
def test_another_network_or_other_frames_are_refused(made: Path, validated: dict[str, Any]) -> None:
    assert "chunks of 4 frames" in validate(made, "once", "--chunk-frames", "5", code=4)["stderr"]
    validated_network.checkpoint(made / "other.pt", seed=2)
    ran = typed(made, "data", "validate", "other.pt", "m.jsonl", "--into", "once", "--chunk-frames", "4")
    assert ran.returncode == 4
    assert "another checkpoint" in ran.stderr
    (made / "no.pt").write_bytes(b"PK\x03\x04 nothing")
    ran = typed(made, "data", "validate", "no.pt", "m.jsonl", "--into", "new")
    assert ran.returncode == 4
    assert "no.pt: is not a checkpoint of `segmentation`" in ran.stderr
    validated_network.checkpoint(made / "seven.pt", classes=20)
    ran = typed(made, "data", "validate", "net.pt", "m.jsonl", "--into", "new", "--from", "nowhere")
    assert ran.returncode == 4
    assert "name the data set's directory with --from" in ran.stderr


def test_an_unknown_column_is_an_error_that_names_the_known_ones(
    made: Path, validated: dict[str, Any]
) -> None:
    said = validate(made, "once", "--by", "weather", "--catalog", str(made / "c.duckdb"), code=4)["stderr"]
    assert "has no column 'weather'; expected one of label, image" in said


def test_two_processes_at_once_work_on_no_directory(made: Path, validated: dict[str, Any]) -> None:
    from assay.data.validation import opened, read_about

    with (
        opened(made / "once", read_about(made / "once")),
        pytest.raises(BusyError, match="is held by"),
        opened(made / "once", read_about(made / "once")),
    ):
        pass


@pytest.mark.parametrize(
    "workers", [pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_counts_are_the_same_for_any_number_of_workers(
    made: Path, validated: dict[str, Any], workers: int
) -> None:
    again = validate(made, f"by-{workers}", "--workers", str(workers))
    assert again["matrix"] == validated["matrix"]
    for path in (made / "once" / CHUNKS).iterdir():
        assert (made / f"by-{workers}" / CHUNKS / path.name).read_bytes() == path.read_bytes()


@pytest.mark.long  # Ray gives its start 30 s, which is little on a busy machine
def test_ray_on_two_processes_counts_the_same(made: Path, validated: dict[str, Any]) -> None:
    require("ray", importlib.util.find_spec("ray") is not None, "install the extra `ray`")
    again = validate(made, "by-ray", "--ray", "local", "--workers", "2")
    assert again["matrix"] == validated["matrix"]


@pytest.mark.long
def test_a_ray_cluster_that_runs_already_counts_the_same(made: Path, validated: dict[str, Any]) -> None:
    require("ray", importlib.util.find_spec("ray") is not None, "install the extra `ray`")
    words = ["data", "validate", "net.pt", "m.jsonl", "--chunk-frames", str(CHUNK), "--json"]
    with ray_cluster.cluster(made.parent / "ray") as ray:
        ran = ray.assay(made, *words, "--into", "by-cluster")
    assert ran.returncode == 1, ran.stderr
    again = json.loads(ran.stdout)
    assert again["matrix"] == validated["matrix"]


@pytest.mark.long
def test_frames_in_a_bucket_are_counted_like_those_of_the_directory(
    made: Path, validated: dict[str, Any], s3: s3_server.S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made / "a2d2", s3.root / "validated" / "a2d2")
    made_a2d2.file(s3.root / "validated" / "a2d2", UNREADABLE, "camera").unlink()
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    from_store = ("--from", "s3://validated/a2d2")
    again = validate(made, "from-bucket", *from_store, "--page", "bucket.html")
    assert again["matrix"] == validated["matrix"]
    assert "there is no such object" in again["unreadable_frames"][0]["why"]
    assert "data:image/jpeg" in (made / "bucket.html").read_text()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    said = validate(made, "refused", *from_store, code=5)["stderr"]
    assert "s3://validated/a2d2/class_list.json: the store refuses it" in said
    assert "not-the-secret" not in said


def test_a_ray_that_does_not_answer_is_an_error_at_once(made: Path) -> None:
    require("ray", importlib.util.find_spec("ray") is not None, "install the extra `ray`")
    assert "no Ray answers at 127.0.0.1:1" in validate(made, "far", "--ray", "127.0.0.1:1", code=4)["stderr"]


@pytest.mark.long
def test_ranks_of_a_job_print_chunks_that_add_up_to_the_same(made: Path, validated: dict[str, Any]) -> None:
    suite = {
        "suite": "validation",
        "workload": "segmentation-validation",
        "params": {"checkpoint": "net.pt", "manifest": "m.jsonl", "chunk_frames": CHUNK, "device": "cpu"},
        "shapes": ["1x2"],
        "repeats": 1,
        "systems": ["local"],
    }
    (made / "suite.json").write_text(json.dumps(suite))
    ran = typed(made, "run", "suite.json", "--quiet")
    assert ran.returncode == 0, ran.stderr
    (reading,) = made.glob("runs/validation/*/*/attempt-1/reading.json")
    kept = json.loads(reading.read_text())["reading"]
    assert kept["confusion"]["counts"] == validated["matrix"]
    figures = {one["metric"]: one["value"] for one in kept["measurements"]}
    assert figures["mean_iou"] == pytest.approx(validated["mean_iou"])
    again = validate(made, "from-run", "--run", "runs/validation")
    assert again["matrix"] == validated["matrix"]
    assert again["worst"] == validated["worst"]


@pytest.mark.long
@pytest.mark.parametrize("victim", ["worker", "driver"])
def test_after_a_kill_the_same_command_computes_the_rest(
    made: Path, validated: dict[str, Any], victim: str
) -> None:
    into = made / f"killed-{victim}"
    words = ["data", "validate", "net.pt", "m.jsonl", "--into", str(into), "--chunk-frames", str(CHUNK)]
    with subprocess.Popen(
        [sys.executable, "-m", "assay", *words, "--workers", "2", "--json"],
        cwd=made,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as driver:
        deadline = time.monotonic() + 600
        while not [*into.glob(f"{CHUNKS}/0*.json")]:
            assert time.monotonic() < deadline
            assert driver.poll() is None
            time.sleep(0.01)
        killed = driver.pid if victim == "driver" else workers_of(driver.pid)[0]
        os.kill(killed, signal.SIGKILL)
        out, _ = driver.communicate()
        if victim == "worker":
            assert json.loads(out)["matrix"] == validated["matrix"]
    again = validate(made, str(into), "--workers", "1")
    assert again["matrix"] == validated["matrix"]


def workers_of(driver: int) -> list[int]:
    """The processes that a driver started to compute chunks."""
    tasks = Path(f"/proc/{driver}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_directory_that_is_none_is_an_error(tmp_path: Path) -> None:
    from assay.data.validation import read_about

    with pytest.raises(InputError, match=f"has no {ABOUT}"):
        read_about(tmp_path)
    (tmp_path / ABOUT).write_text('{"key": 1}')
    with pytest.raises(InputError, match="is damaged"):
        read_about(tmp_path)


def test_a_directory_belongs_to_the_first_validation_that_kept_something(tmp_path: Path) -> None:
    from assay.data.validation import ValidationAbout, opened, read_about

    about = ValidationAbout("key", "net", 1, "frames", "all", "/data", ("car",), (4, 4), 100, 64, 4)
    smaller = replace(about, chunk_frames=2)
    with pytest.raises(InputError, match="no chunk of this validation"), opened(tmp_path, about):
        raise InputError("run.log: has no chunk of this validation")
    with opened(tmp_path, smaller) as directory:
        directory.keep(0, "{}")
    assert read_about(tmp_path) == smaller
    with pytest.raises(InputError, match="chunks of 2 frames"), opened(tmp_path, about):
        pass

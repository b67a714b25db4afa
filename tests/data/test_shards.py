"""Frames as webdataset shards: the same bytes always, no frame twice or lost, resumed after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

import made_frames
from assay import api
from assay.errors import HostError, InputError
from command_line import assay as typed

SIZE, FRAMES, SHARD = 10_000, 11, 70_000


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    made_frames.make(tmp_path / "d", FRAMES, SIZE)
    return tmp_path / "d.jsonl"


def digests(place: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.glob("shard-*.tar")}


def test_every_frame_is_in_one_shard_with_its_name(manifest: Path, tmp_path: Path) -> None:
    done = api.stage_data(manifest, tmp_path / "s", shard_bytes=SHARD)
    assert (done.copied_files, done.files) == (2 * FRAMES + 1, 2 * FRAMES + 1)
    keys, labels = [], {}
    for path in sorted((tmp_path / "s").glob("*.tar")):
        assert path.stat().st_size <= SHARD
        with tarfile.open(path) as opened:
            members = {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]
        for key in dict.fromkeys(name.partition(".")[0] for name in members):
            about = json.loads(members[f"{key}.json"])
            keys.append(key)
            labels[about["label"]] = members[f"{key}.label.png"]
            assert members[f"{key}.camera.png"] == (tmp_path / "d" / about["image"]).read_bytes()
            assert about["camera"] == "c"
    assert keys == [f"{number:09}" for number in range(FRAMES)]
    assert {name: (tmp_path / "d" / name).read_bytes() for name in labels} == labels
    about, *lines = map(json.loads, (tmp_path / "s" / "shards.jsonl").read_text().splitlines())
    assert about["frames"] == FRAMES
    assert {name: digest for name, _, _, digest in lines} == digests(tmp_path / "s")
    assert sum(samples for _, _, samples, _ in lines) == FRAMES


def test_the_bytes_are_the_same_at_any_parallelism(manifest: Path, tmp_path: Path) -> None:
    for threads in (1, 7):
        api.stage_data(manifest, tmp_path / f"s{threads}", shard_bytes=SHARD, threads=threads)
    assert digests(tmp_path / "s1") == digests(tmp_path / "s7")
    index = [(tmp_path / name / "shards.jsonl").read_bytes() for name in ("s1", "s7")]
    assert index[0] == index[1]


def test_only_what_is_missing_or_has_changed_is_made_again(manifest: Path, tmp_path: Path) -> None:
    near = tmp_path / "s"
    api.stage_data(manifest, near, shard_bytes=SHARD)
    before = digests(near)
    times = {path.name: path.stat().st_mtime_ns for path in near.glob("*.tar")}
    (near / "shard-000001.tar").unlink()
    (tmp_path / "d" / "s0/label/c/label_0.png").write_bytes(bytes(SIZE))
    with (near / ".shards.jsonl").open("a") as journal:
        journal.write('["shard-000002.tar", "cut')
    api.stage_data(manifest, near, shard_bytes=SHARD)
    after = digests(near)
    made = [name for name in after if (near / name).stat().st_mtime_ns != times[name]]
    assert sorted(made) == ["shard-000000.tar", "shard-000001.tar"]
    assert (after["shard-000001.tar"], after["shard-000000.tar"]) != (
        before["shard-000001.tar"],
        before["shard-000000.tar"],
    )
    assert after["shard-000001.tar"] == before["shard-000001.tar"]
    api.stage_data(manifest, near, shard_bytes=10 * SHARD)
    assert len(digests(near)) == 1


def test_a_frame_larger_than_a_shard_has_one_of_its_own(manifest: Path, tmp_path: Path) -> None:
    api.stage_data(manifest, tmp_path / "s", shard_bytes=1000)
    assert len(digests(tmp_path / "s")) == FRAMES


def test_a_source_that_changes_while_it_is_read_is_named(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay_payloads.datasets import shards

    real = shards.blocks_of

    def shorter(place: object, name: str, state: object) -> object:
        os.truncate(tmp_path / "d" / name, 5)
        return real(place, name, state)  # type: ignore[arg-type]

    monkeypatch.setattr(shards, "blocks_of", shorter)
    with pytest.raises(HostError, match="changed while it was read"):
        api.stage_data(manifest, tmp_path / "s", shard_bytes=SHARD)
    assert digests(tmp_path / "s") == {}


def test_typed(manifest: Path, tmp_path: Path) -> None:
    done = typed(tmp_path, "data", "stage", "d.jsonl", "--to", "s", "--shards", "70kB")
    assert (done.returncode, "23 files copied" in done.stdout) == (0, True)
    for options in (("--space", "1GB"), ()):
        to = "s" if options else "s3://bucket/x"
        done = typed(tmp_path, "data", "stage", "d.jsonl", "--to", to, "--shards", "1GB", *options)
        assert done.returncode == 4
    with pytest.raises(InputError, match="leave it out"):
        api.stage_data(manifest, "s3://bucket/x", space_bytes=5)

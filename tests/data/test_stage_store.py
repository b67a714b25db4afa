"""Frames to a store and from one: compared, resumed, retried, and no key written anywhere."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import made_frames
from assay import api
from assay.errors import HostError
from assay.frame_manifest import read_manifest, write_manifest
from assay_payloads.datasets import places, store_staging
from assay_payloads.datasets.manifest import made
from s3_server import KEY, SECRET, S3Server, failing

SIZE, FRAMES = 3000, 15
BUCKETS = itertools.count()


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty bucket's directory, and this process as its client."""
    folder = s3.root / f"sets{next(BUCKETS)}"
    folder.mkdir()
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(places, "_CONNECTION", places._Connection())
    return folder


@pytest.fixture
def near(bucket: Path) -> str:
    """The address of a place in the bucket."""
    return f"s3://{bucket.name}/near"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    made_frames.make(tmp_path / "d", FRAMES, SIZE)
    return tmp_path / "d.jsonl"


@pytest.mark.long
def test_to_a_store_and_back_every_byte_is_the_same(
    bucket: Path, near: str, manifest: Path, tmp_path: Path
) -> None:
    done = api.stage_data(manifest, near)
    assert (done.copied_files, done.present_files) == (2 * FRAMES + 1, 0)
    assert made_frames.contents(bucket / "near") == made_frames.contents(tmp_path / "d")
    again = api.stage_data(manifest, near)
    assert (again.copied_files, again.present_files) == (0, 2 * FRAMES + 1)
    (bucket / "near" / "s0/label/c/label_0.png").unlink()
    assert api.stage_data(manifest, near).copied_files == 1
    (tmp_path / "back.jsonl").write_bytes((bucket / "near" / "manifest.jsonl").read_bytes())
    assert read_manifest(tmp_path / "back.jsonl").root == near
    back = api.stage_data(tmp_path / "back.jsonl", tmp_path / "back")
    assert back.copied_files == 2 * FRAMES + 1
    assert made_frames.contents(tmp_path / "back") == made_frames.contents(tmp_path / "d")
    assert api.stage_data(tmp_path / "back.jsonl", tmp_path / "back").copied_files == 0
    through = api.stage_data(tmp_path / "back.jsonl", tmp_path / "shards", shard_bytes=10**6)
    assert through.copied_files == 2 * FRAMES + 1
    written = b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "s3" not in path.parts
    )
    assert KEY.encode() not in written
    assert SECRET.encode() not in written


@pytest.mark.long
def test_what_was_copied_before_an_interruption_is_not_copied_again(
    bucket: Path, near: str, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = store_staging._sent, [0]

    def failing_later(*asked: object) -> str:
        count[0] += 1
        if count[0] > 20:
            raise OSError(5, "Input/output error", "disk")
        return real(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(store_staging, "_sent", failing_later)
    with pytest.raises(HostError, match="Input/output"):
        api.stage_data(manifest, near, threads=1)
    monkeypatch.setattr(store_staging, "_sent", real)
    done = api.stage_data(manifest, near)
    assert done.present_files >= 20 - places.AT_ONCE
    assert done.copied_files + done.present_files == 2 * FRAMES + 1


@pytest.mark.long
def test_one_request_in_ten_that_fails_is_repeated(
    near: str, s3: S3Server, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(s3.url) as (url, failed):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        api.stage_data(manifest, near)
        write_manifest(tmp_path / "b.jsonl", made(near, "a2d2", "all", read_manifest(manifest).frames))
        api.stage_data(tmp_path / "b.jsonl", tmp_path / "back")
    assert failed[0] > 5
    assert made_frames.contents(tmp_path / "back") == made_frames.contents(tmp_path / "d")


def test_a_wrong_key_is_named_without_being_shown(
    near: str, s3: S3Server, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    with pytest.raises(HostError, match="refuses it") as raised:
        api.stage_data(manifest, near)
    assert "a-wrong-secret" not in str(raised.value)
    with pytest.raises(HostError, match="holds credentials"):
        api.stage_data(manifest, "s3://user:secret@bucket/x")


def test_a_store_that_returns_other_bytes_is_named(
    bucket: Path, near: str, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_staging, "blocks_of", lambda *_: iter([b"other"]))
    with pytest.raises(HostError, match="differs from what was written"):
        api.stage_data(manifest, near)
    assert (bucket / "near" / ".staged.jsonl").read_text() == ""

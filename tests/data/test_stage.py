"""Frames copied near to where they are read: all of them, as they are, also after kills and on full disks."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import made_a2d2
from assay import api
from assay.errors import HostError, InputError
from assay.frame_manifest import read_manifest, write_manifest
from assay_payloads.datasets import staged_files, staging
from assay_payloads.datasets.manifest import ChosenFrame, made
from command_line import assay as typed

pytest.importorskip("pyspng")
FRAMES = 20


@pytest.fixture
def a2d2(tmp_path: Path) -> Path:
    return made_a2d2.make(tmp_path / "a2d2", frames=FRAMES)


@pytest.fixture
def manifest(a2d2: Path, tmp_path: Path) -> Path:
    api.scan_data(a2d2, catalog=tmp_path / "c.duckdb")
    write_manifest(tmp_path / "m.jsonl", api.query_data(catalog=tmp_path / "c.duckdb", limit=12, seed=2))
    return tmp_path / "m.jsonl"


def digests(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_what_is_staged_is_the_chosen_part_byte_for_byte(a2d2: Path, manifest: Path, tmp_path: Path) -> None:
    near = tmp_path / "near"
    done = api.stage_data(manifest, near)
    chosen = read_manifest(manifest)
    assert (done.files, done.copied_files, done.present_files) == (25, 25, 0)
    assert done.copied_bytes == chosen.bytes + (a2d2 / "class_list.json").stat().st_size
    there, whole = digests(near), digests(a2d2)
    own = {*staging.OWN_FILES}
    assert {name: value for name, value in there.items() if name not in own} == {
        name: whole[name] for name in there.keys() - own
    }
    copy = read_manifest(near / staging.CHOSEN)
    assert (copy.digest, copy.root) == (chosen.digest, str(near))
    again = api.stage_data(manifest, near)
    assert (again.copied_files, again.present_files) == (0, 25)
    label = a2d2 / chosen.frames[0].label
    label.write_bytes(label.read_bytes())
    os.utime(label, ns=(1, 1))
    assert api.stage_data(manifest, near).copied_files == 1
    (near / chosen.frames[1].image).unlink()
    assert api.stage_data(manifest, near).copied_files == 1
    assert api.scan_data(near, catalog=tmp_path / "near.duckdb").read == 12


@pytest.mark.long
def test_killed_at_any_moment_nothing_half_copied_is_taken_for_whole(tmp_path: Path) -> None:
    root, frames = tmp_path / "data", []
    chance = random.Random(3)
    for number in range(60):
        names = [f"s/{kind}/c/{number}.png" for kind in ("label", "camera")]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(chance.randbytes(1 << 20))
        frames.append(ChosenFrame(*names, 1 << 20, 1 << 20))
    (root / "class_list.json").write_text("{}")
    write_manifest(tmp_path / "m.jsonl", made(str(root), "a2d2", "all", frames))
    near, program = tmp_path / "near", Path(staging.__file__)
    argv = [sys.executable, "-m", "assay_payloads.datasets.staging", str(tmp_path / "m.jsonl"), str(near)]
    for _ in range(10):
        copy = subprocess.Popen(argv, cwd=program.parents[2])
        time.sleep(chance.uniform(0.1, 0.5))
        copy.send_signal(signal.SIGKILL)
        copy.wait()
        for path in near.rglob("*.png"):
            assert path.stat().st_size == 1 << 20
    api.stage_data(tmp_path / "m.jsonl", near)
    assert {n: d for n, d in digests(near).items() if n.endswith(".png")} == {
        n: d for n, d in digests(root).items() if n.endswith(".png")
    }


def test_what_is_missing_is_counted_before_anything_is_copied(
    a2d2: Path, manifest: Path, tmp_path: Path
) -> None:
    for frame in read_manifest(manifest).frames[:3]:
        (a2d2 / frame.label).unlink()
    with pytest.raises(InputError, match=r"has no .*label.* and 2 more"):
        api.stage_data(manifest, tmp_path / "near")
    assert not (tmp_path / "near").exists()
    with pytest.raises(InputError, match="own place"):
        api.stage_data(manifest, a2d2)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_named_and_leaves_no_part(manifest: Path, tmp_path: Path) -> None:
    near = tmp_path / "near"
    near.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(near)], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(
            HostError, match=r"No space left for [\d,]+ bytes: [\d,]+ are free; .*run the same"
        ):
            api.stage_data(manifest, near)
        assert list(near.rglob("*.png")) == []  # it is said before the first byte
        assert list(near.rglob("*.part")) == []
    finally:
        subprocess.run(["umount", str(near)], check=True)


@pytest.mark.long
def test_files_of_another_size_than_in_the_manifest_are_counted(
    a2d2: Path, manifest: Path, tmp_path: Path
) -> None:
    chosen = read_manifest(manifest)
    for frame in chosen.frames[:2]:
        with (a2d2 / frame.image).open("ab") as image:
            image.write(b"more")
    done = typed(tmp_path, "data", "stage", str(manifest), "--to", "near")
    assert (done.returncode, done.stderr) == (0, "")
    assert "! 2 files of another size than when the manifest was made" in done.stdout


@pytest.mark.long
def test_a_disk_that_returns_other_bytes_is_named(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = hashlib.sha256

    class Flipping:
        made = 0

        def __init__(self) -> None:
            Flipping.made += 1
            self._hash = real(b"x" if Flipping.made % 2 else b"")

        def __getattr__(self, name: str) -> object:
            return getattr(self._hash, name)

    chosen = read_manifest(manifest)
    monkeypatch.setattr(staged_files.hashlib, "sha256", Flipping)
    with pytest.raises(staged_files.StagingError, match="check this disk"):
        staging.stage(chosen, tmp_path / "near", threads=1)


def test_typed(manifest: Path, tmp_path: Path) -> None:
    done = typed(tmp_path, "data", "stage", "m.jsonl", "--to", "near")
    assert (done.returncode, done.stderr) == (0, "")
    assert "25 files copied" in done.stdout
    done = typed(tmp_path, "data", "stage", "m.jsonl", "--to", "near", "--json")
    assert json.loads(done.stdout)["present_files"] == 25
    manifest.write_text("hello")
    done = typed(tmp_path, "data", "stage", "m.jsonl", "--to", "near")
    assert (done.returncode, "is not a manifest" in done.stderr) == (4, True)


@pytest.mark.long
def test_a_link_out_of_the_data_set_or_out_of_the_target_is_refused(
    a2d2: Path, manifest: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    label = a2d2 / read_manifest(manifest).frames[0].label
    whole = label.read_bytes()
    label.unlink()
    label.symlink_to(secret)
    with pytest.raises(InputError, match="is a link out of"):
        api.stage_data(manifest, tmp_path / "near")
    label.unlink()
    label.write_bytes(whole)
    scene = a2d2 / read_manifest(manifest).frames[0].label.partition("/")[0]
    scene.rename(tmp_path / "elsewhere")
    scene.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads out of"):
        api.stage_data(manifest, tmp_path / "near")
    scene.unlink()
    (tmp_path / "elsewhere").rename(scene)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / scene.name).symlink_to(tmp_path / "outside")
    (tmp_path / "outside").mkdir()
    with pytest.raises(InputError, match="leads out of"):
        api.stage_data(manifest, tmp_path / "near")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.long
def test_a_source_that_changes_while_it_is_copied_is_named_and_not_kept(
    a2d2: Path, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, real = read_manifest(manifest).frames[0].label, staged_files.blocks_of

    def changing(place: object, asked: str, state: object) -> object:
        yield from real(place, asked, state)  # type: ignore[arg-type]
        if asked == name:
            os.utime(a2d2 / name, ns=(5, 5))

    monkeypatch.setattr(staged_files, "blocks_of", changing)
    with pytest.raises(HostError, match="changed while it was copied"):
        api.stage_data(manifest, tmp_path / "near")
    assert not (tmp_path / "near" / name).exists()

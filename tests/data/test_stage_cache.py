"""Several sets of frames in one directory: the space is never exceeded, and nobody's frames are removed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import made_frames
from assay import api
from assay.errors import HostError, InputError
from assay_payloads.datasets import staging, staging_cache
from assay_payloads.datasets.frame_files import ReadThrough
from command_line import assay as typed

SIZE = 10_000
SETS, FRAMES = 4, 5
SPACE = 500_000  # of a set of five frames: 172,032


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Manifests of several data sets."""
    for seed in range(SETS):
        made_frames.make(tmp_path / f"d{seed}", FRAMES, SIZE, seed=seed)
    return [tmp_path / f"d{seed}.jsonl" for seed in range(SETS)]


def on_disk(place: Path) -> int:
    """Bytes that everything below a directory takes, also if some of it is removed meanwhile."""
    total = 0
    for folder, _, files in os.walk(place):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            with contextlib.suppress(FileNotFoundError):
                total += path.lstat().st_blocks * 512
    return total


def names(cache: Path) -> list[str]:
    return [Path(one.root).name for one in staging_cache.sets(cache)]


def test_the_least_recently_used_set_makes_room(sources: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for manifest in (sources[0], sources[1], sources[0], sources[2]):
        done = api.stage_data(manifest, cache, space_bytes=SPACE)
    assert names(cache) == ["d0", "d2"]
    assert len(done.evicted) == 1
    assert made_frames.contents(Path(done.directory)) == made_frames.contents(tmp_path / "d2")
    assert on_disk(cache) <= SPACE
    again = api.stage_data(sources[0], cache, space_bytes=SPACE)
    assert (again.copied_files, again.present_files, again.evicted) == (0, 2 * FRAMES + 1, ())


def test_what_somebody_reads_stays_until_they_end(sources: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = [api.stage_data(manifest, cache, space_bytes=SPACE) for manifest in sources[:2]]
    hold = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH); print(); input()"
    argv = [sys.executable, "-c", hold]
    readers = []
    for one in done:
        path = staging_cache.hold_path(cache, Path(one.directory).name)
        reader = subprocess.Popen([*argv, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert reader.stdout is not None
        reader.stdout.readline()
        readers.append(reader)
    with pytest.raises(HostError, match="of sets in use"):
        api.stage_data(sources[2], cache, space_bytes=SPACE)
    assert names(cache) == ["d0", "d1"]
    readers[1].kill()  # kill -9 releases a lock too
    readers[1].communicate()
    api.stage_data(sources[2], cache, space_bytes=SPACE)
    assert names(cache) == ["d0", "d2"]
    with pytest.raises(HostError, match="is in use"):
        api.staged_sets(cache, remove=[Path(done[0].directory).name])
    readers[0].kill()
    readers[0].communicate()
    assert [one.root for one in api.staged_sets(cache, remove=[Path(done[0].directory).name])] == [
        str(tmp_path / "d2")
    ]


def test_a_set_larger_than_the_space_is_refused_before_anything_is_copied(
    sources: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(HostError, match="but the space is 100,000 bytes"):
        api.stage_data(sources[0], tmp_path / "cache", space_bytes=100_000)
    assert made_frames.contents(tmp_path / "cache") == {}


def test_the_space_is_not_exceeded_while_several_stage_at_the_same_time(
    sources: list[Path], tmp_path: Path
) -> None:
    cache, most, over = tmp_path / "cache", [0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            most[0] = max(most[0], on_disk(cache))

    def stage(first: int) -> None:
        for number in range(6):
            try:
                api.stage_data(sources[(first + number) % SETS], cache, space_bytes=SPACE)
            except HostError as error:
                assert "in use" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=stage, args=(first,)) for first in range(2)]
    watcher = threading.Thread(target=watch)
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    watcher.join()
    assert 0 < most[0] <= SPACE


def test_two_nodes_that_share_a_directory_copy_each_file_once(sources: list[Path], tmp_path: Path) -> None:
    done = []

    def node() -> None:
        done.append(api.stage_data(sources[0], tmp_path / "cache", space_bytes=SPACE))

    nodes = [threading.Thread(target=node) for _ in range(2)]
    for thread in nodes:
        thread.start()
    for thread in nodes:
        thread.join()
    assert sorted(one.copied_files for one in done) == [0, 2 * FRAMES + 1]
    assert sum(one.present_files for one in done) == 2 * FRAMES + 1


@pytest.mark.long
def test_killed_at_ten_random_moments_the_space_holds_and_the_set_is_whole(tmp_path: Path) -> None:
    manifests = []
    for seed in range(2):
        made_frames.make(tmp_path / f"d{seed}", 40, 100_000, seed=seed)
        manifests.append(tmp_path / f"d{seed}.jsonl")
    cache, space, chance = tmp_path / "cache", 9_500_000, random.Random(5)
    program = Path(staging.__file__).parents[2]
    for number in range(10):
        argv = ["-m", "assay_payloads.datasets.staging", str(manifests[number % 2]), str(cache)]
        copy = subprocess.Popen([sys.executable, *argv, "--cache", "--space", str(space)], cwd=program)
        time.sleep(chance.uniform(0.05, 0.6))
        copy.send_signal(signal.SIGKILL)
        copy.wait()
        assert on_disk(cache) <= space
    for number, manifest in enumerate(manifests):
        done = api.stage_data(manifest, cache, space_bytes=space)
        assert made_frames.contents(Path(done.directory)) == made_frames.contents(tmp_path / f"d{number}")
        assert list(cache.rglob("*.part")) == []
        assert on_disk(cache) <= space


@pytest.mark.parametrize("then", [slice(0, 1), slice(1, None)], ids=["the same set", "the others"])
def test_an_eviction_that_was_killed_is_finished_by_the_next(
    sources: list[Path], tmp_path: Path, then: slice
) -> None:
    cache = tmp_path / "cache"
    done = api.stage_data(sources[0], cache, space_bytes=SPACE)
    Path(done.directory).rename(cache / f"{staging_cache.LEAVING}{Path(done.directory).name}")
    for manifest in sources[then]:
        api.stage_data(manifest, cache, space_bytes=SPACE)
    assert list(cache.glob(f"{staging_cache.LEAVING}*")) == []
    assert on_disk(cache) <= SPACE


def test_read_through_keeps_each_file_once_and_drops_what_has_changed(tmp_path: Path) -> None:
    root, cache = tmp_path / "d", tmp_path / "cache"
    manifest = made_frames.make(root, FRAMES, SIZE)
    done = staging.stage_in_cache(manifest, cache, SPACE, through=True)
    near = Path(done.directory)
    assert (done.copied_files, made_frames.contents(near)) == (1, {})
    read = ReadThrough(near, str(root))
    label = manifest.frames[0].label

    def first_reading() -> None:
        assert read(near / label).read_bytes() == (root / label).read_bytes()

    readers = [threading.Thread(target=first_reading) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert list(made_frames.contents(near)) == [label]
    (root / label).unlink()
    assert len(read(near / label).read_bytes()) == SIZE  # no longer from its source
    with pytest.raises(Exception, match="no_frame"):
        read(near / "s0/label/c/no_frame.png")
    (root / label).write_bytes(b"new")
    staging.stage_in_cache(manifest, cache, SPACE, through=True)
    assert made_frames.contents(near) == {}
    assert read(near / label).read_bytes() == b"new"
    assert list(near.rglob("*.part")) == []


def test_a_reader_that_was_killed_leaves_a_part_that_the_next_one_uses(tmp_path: Path) -> None:
    manifest = made_frames.make(tmp_path / "d", 1, SIZE)
    near, label = tmp_path / "near", manifest.frames[0].label
    part = (near / label).with_name(f".{Path(label).name}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half" * SIZE)
    with part.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
    assert (
        ReadThrough(near, str(tmp_path / "d"))(near / label).read_bytes()
        == (tmp_path / "d" / label).read_bytes()
    )
    assert not part.exists()


def test_typed(sources: list[Path], tmp_path: Path) -> None:
    done = typed(tmp_path, "data", "stage", "d0.jsonl", "--to", "cache", "--space", "500kB")
    assert (done.returncode, "were there in cache/" in done.stdout) == (0, True)
    listed = typed(tmp_path, "data", "cache", "cache")
    assert listed.stdout.splitlines()[-1].startswith("1 set, ")
    (one,) = json.loads(typed(tmp_path, "data", "cache", "cache", "--json").stdout)["sets"]
    assert (one["frames"], one["in_use"]) == (FRAMES, False)
    assert "0 sets" in typed(tmp_path, "data", "cache", "cache", "--remove", one["name"]).stdout
    assert typed(tmp_path, "data", "cache", "nowhere").returncode == 4
    wrong = typed(tmp_path, "data", "stage", "d0.jsonl", "--to", "cache", "--space", "much")
    assert wrong.returncode == 2
    with pytest.raises(InputError, match="has no set"):
        api.staged_sets(tmp_path / "cache", remove=["x"])

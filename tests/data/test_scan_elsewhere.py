"""A scan of a bucket, and a scan on Ray: the same catalog as of the directory, and no secret in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import made_a2d2
import ray_cluster
import s3_server
from assay import api
from assay.errors import HostError, InputError
from assay.frame_manifest import write_manifest
from command_line import assay as typed
from conftest import require

pytest.importorskip("pyspng")
FRAMES = 24
ALL = "SELECT * EXCLUDE changed_ns FROM frames ORDER BY label"


@pytest.fixture(scope="module")
def a2d2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_a2d2.make(tmp_path_factory.mktemp("made") / "a2d2", frames=FRAMES)


@pytest.fixture(scope="module")
def whole(a2d2: Path) -> Path:
    """The catalog of a scan on this machine's processes, and its Parquet next to it."""
    catalog = a2d2.parent / "whole.duckdb"
    api.scan_data(a2d2, catalog=catalog, processes=1, parquet=catalog.with_suffix(".parquet"))
    return catalog


def rows(catalog: Path, sql: str = ALL) -> list[tuple[object, ...]]:
    return list(api.query_data_sql(sql, catalog=catalog).rows)


def test_a_bucket_is_cataloged_like_the_directory_though_a_request_in_ten_fails(
    a2d2: Path, whole: Path, s3: s3_server.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(a2d2, s3.root / "recordings" / "a2d2")
    with s3_server.failing(s3.url) as (url, failed):
        for name, value in s3.environment(url).items():
            monkeypatch.setenv(name, value)
        catalog = tmp_path / "c.duckdb"
        done = typed(
            tmp_path, "data", "scan", "s3://recordings/a2d2", "--catalog", str(catalog), "--processes", "1"
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert failed[0] > FRAMES // 5
        assert rows(catalog) == rows(whole)
        made_a2d2.file(s3.root / "recordings" / "a2d2", 3, "label").unlink()
        again = typed(tmp_path, "data", "scan", "s3://recordings/a2d2", "--catalog", str(catalog))
        assert "0 frames read in" in again.stdout
        assert f"{FRAMES - 1} unchanged, 1 vanished" in again.stdout
    chosen = api.query_data("sky > 1%", catalog=catalog)
    write_manifest(tmp_path / "m.jsonl", chosen)
    assert chosen.root == "s3://recordings/a2d2"
    for file in (catalog, tmp_path / "m.jsonl"):
        held = file.read_bytes()
        assert s3_server.SECRET.encode() not in held
        assert s3_server.KEY.encode() not in held


def test_a_key_that_the_store_refuses_is_said_without_it(
    s3: s3_server.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (s3.root / "closed").mkdir()
    for name, value in s3.environment(secret="not-the-secret").items():
        monkeypatch.setenv(name, value)
    done = typed(tmp_path, "data", "scan", "s3://closed/x")
    assert done.returncode == HostError.exit_code
    assert "s3://closed/x: the store refuses it" in done.stderr
    assert "not-the-secret" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "catalog.duckdb").exists()
    done = typed(tmp_path, "data", "scan", "s3://key:password@closed/x")
    assert (done.returncode, "password" in done.stderr) == (HostError.exit_code, False)


def test_shards_in_a_bucket_are_read_by_place(
    s3: s3_server.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = s3.root / "shards"
    folder.mkdir()
    label = made_a2d2.make(tmp_path / "few", frames=2)
    with tarfile.open(folder / "0.tar", "w") as shard:
        for number in range(2):
            for kind, end in (("camera", "camera.png"), ("label", "label.png")):
                shard.add(made_a2d2.file(label, number, kind), f"{number}.{end}")
    shutil.copy(label / "class_list.json", folder)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    done = typed(tmp_path, "data", "scan", "s3://shards", "--processes", "1")
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(tmp_path / "catalog.duckdb", "SELECT label, unknown FROM frames ORDER BY label")
    assert found == [(f"0.tar#{n}.label.png", made_a2d2.UNKNOWN_PIXELS) for n in range(2)]


@pytest.mark.long
def test_ray_gives_the_same_bytes_though_its_workers_are_killed(
    a2d2: Path, whole: Path, tmp_path: Path
) -> None:
    require("ray", find_spec("ray") is not None, "the extra `ray` is missing")
    parquet = tmp_path / "c.parquet"
    program = (
        "import assay.data.scanning as s\n"
        "from assay import api\n"
        "s.IN_A_TASK = 1\n"
        "def tell(scan):\n"
        "    if scan.read == 2:\n"
        "        print('two are read', flush=True)\n"
        "        input()\n"
        f"api.scan_data({str(a2d2)!r}, catalog={str(tmp_path / 'c.duckdb')!r}, processes=1, ray='local', "
        f"parquet={str(parquet)!r}, tell=tell)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ray_cluster.PATIENT},
    ) as scan:
        assert scan.stdout is not None
        assert scan.stdout.readline() == "two are read\n"
        workers = workers_of(scan.pid)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        scan.communicate("\n")
    assert scan.returncode == 0
    assert workers
    assert parquet.read_bytes() == whole.with_suffix(".parquet").read_bytes()


@pytest.mark.long
def test_a_ray_whose_node_died_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    require("ray", find_spec("ray") is not None, "the extra `ray` is missing")
    program = (
        "from time import sleep\n"
        "from assay.data.parallel import Workers, mapped\n"
        "from assay.errors import HostError\n"
        "def nap(seconds): sleep(seconds)\n"
        "try:\n"
        "    for _ in mapped(nap, [0, 3600], Workers(1, 'local')):\n"
        "        print('one is done', flush=True)\n"
        "except HostError as error:\n"
        "    print(error, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ray_cluster.PATIENT},
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "one is done\n"
        [raylet] = raylets_of(waiting.pid)
        os.kill(raylet, signal.SIGKILL)
        said, _ = waiting.communicate(timeout=300)
    assert "no node of Ray is left" in said or "Ray gave a task up" in said


def raylets_of(pid: int) -> list[int]:
    """Ray's node below a process."""
    return processes_below(pid, "comm", b"raylet\n")


def workers_of(pid: int) -> list[int]:
    """Ray's workers below a process, whether a task runs in them or not; Ray's own agents are none."""
    return processes_below(pid, "cmdline", b"ray::IDLE", b"ray::read_frames")


def processes_below(pid: int, file: str, *begins: bytes) -> list[int]:
    """Those whose file in /proc begins with one of these."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        try:
            if path.read_bytes().startswith(begins) and below(int(path.parent.name), pid):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return False


def test_ray_that_does_not_answer_is_said(a2d2: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="no Ray answers at 127"):
        api.scan_data(a2d2, catalog=tmp_path / "c.duckdb", ray=f"127.0.0.1:{s3_server.free_port()}")


@pytest.mark.parametrize(("address", "kind"), [("local", HostError), ("127.0.0.1:6379", InputError)])
def test_what_keeps_ray_from_starting_is_an_error_of_words(address: str, kind: type[Exception]) -> None:
    from assay.data.parallel import _RayStart

    words = "The current node timed out during startup"
    with pytest.raises(kind, match=words), _RayStart(address):
        raise Exception(f"{words}.\nMore lines")  # noqa: TRY002 - what ray.init raises
    with pytest.raises(KeyError), _RayStart(address):
        raise KeyError(words)


@pytest.mark.long
def test_a_ray_cluster_that_runs_already_gives_the_same_bytes(
    a2d2: Path, whole: Path, tmp_path: Path
) -> None:
    require("ray", find_spec("ray") is not None, "the extra `ray` is missing")
    parquet = tmp_path / "c.parquet"
    with ray_cluster.cluster(tmp_path.parent / "ray") as ray:
        words = ["data", "scan", str(a2d2), "--catalog", "c.duckdb", "--parquet", str(parquet)]
        done = ray.assay(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    assert parquet.read_bytes() == whole.with_suffix(".parquet").read_bytes()

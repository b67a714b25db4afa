"""Logs that somebody has say at once what is in them; nothing is kept unless it is asked for."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from assay import api
from assay.errors import InputError
from assay.formats import archives
from assay.questions import logs_at_once
from command_line import assay as typed


def log(rate: float) -> str:
    return f"Img/sec per GPU: {rate:.2f} +-1.2\nTotal img/sec on 4 GPU(s): {4 * rate:.2f} +-4.9\n"


def logs(folder: Path, name: str, count: int, rate: float = 108.0) -> None:
    """`count` logs whose names have their number, of one speed with a little luck."""
    folder.mkdir(parents=True, exist_ok=True)
    luck = random.Random(f"{folder.name}{name}")
    for number in range(1, count + 1):
        (folder / f"{name}{number:02}.log").write_text(log(rate * luck.gauss(1, 0.002)))


def document(said: CompletedProcess[str]) -> dict[str, Any]:
    return dict(json.loads(said.stdout))


def test_a_log_is_answered_on_one_screen_and_nothing_is_kept(foreign_logs: Path, tmp_path: Path) -> None:
    said = typed(tmp_path, "read", str(foreign_logs / "nccl-allreduce-superbench.log"), env={"COLUMNS": "80"})
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "nccl-tests measured busbw 235 GB/s at 8 GiB on A100-SXM4-40GB" in said.stdout.replace("\n", " ")
    assert "A100-SXM4-40GB" in said.stdout
    assert [*tmp_path.iterdir()] == []
    whole = typed(tmp_path, "read", str(foreign_logs / "nccl-allreduce-superbench.log"), "--all")
    assert len(whole.stdout) > len(said.stdout)


def test_the_slow_host_of_many_is_named_with_the_share_of_false_alarms(tmp_path: Path) -> None:
    logs(tmp_path / "burn-in", "node", 16)
    (tmp_path / "burn-in" / "node07.log").write_text(log(70.0))
    said = typed(tmp_path, "read", "burn-in")
    assert said.returncode == 1
    first = " ".join(said.stdout.split("\n\n")[0].split())
    assert first.startswith("node07 is slow: 0.6")
    assert "5 % of sets of healthy hosts report a false one" in first
    judged = document(typed(tmp_path, "read", "burn-in", "--json"))["judgement"]
    assert [node["slow"] for node in judged["nodes"]] == [["node07"]]


def test_healthy_hosts_and_too_few_of_them_are_no_alarm(tmp_path: Path) -> None:
    logs(tmp_path / "many", "node", 16)
    logs(tmp_path / "few", "node", 3)
    said = typed(tmp_path, "read", "many")
    assert (said.returncode, said.stdout.startswith("No host is slow: node")) == (0, True)
    assert "No host is called slow or healthy" in " ".join(typed(tmp_path, "read", "few").stdout.split())


def test_repetitions_are_runs_of_one_host(tmp_path: Path) -> None:
    logs(tmp_path, "run", 5)
    read = api.read_logs(*sorted(tmp_path.glob("*.log")))
    assert {log.host for log in read.logs} == {""}
    assert "5 logs of horovod" in str(read)


def test_two_folders_are_compared(tmp_path: Path) -> None:
    logs(tmp_path / "before", "run", 6)
    logs(tmp_path / "after", "run", 6, rate=90.0)
    said = typed(tmp_path, "read", "before", "after", "--json")
    assert said.returncode == 1
    [*claims] = document(said)["judgement"]["comparisons"]
    assert {(claim["a"], claim["b"], claim["verdict"]) for claim in claims if claim["primary"]} == {
        ("before", "after", "slower")
    }


def test_standard_input_and_archives_are_read_like_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log(108.2).encode())))
    [piped] = api.read_logs("-").logs
    assert (piped.file, piped.format) == ("standard input", "horovod")
    logs(tmp_path / "logs", "node", 3)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "logs", "logs")
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("../outside"))
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        for file in sorted((tmp_path / "logs").iterdir()):
            archive.write(file, f"logs/{file.name}")
    for name in ("logs.tar.gz", "logs.zip"):
        read = api.read_logs(tmp_path / name)
        assert [log.file for log in read.logs] == [
            f"{tmp_path}/{name}/logs/node{n:02}.log" for n in (1, 2, 3)
        ]
    [left_out] = api.read_logs(tmp_path / "logs.tar.gz").left_out
    assert "no plain files below it: link, ../outside" in left_out
    assert not (tmp_path / "outside").exists()


def test_a_small_archive_of_a_huge_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_UNPACKED_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("log", b"0" * (8 << 20))
    assert (tmp_path / "bomb.zip").stat().st_size < 1 << 15
    with pytest.raises(InputError, match=r"bomb.zip: unpacks to more than 1.049 MB"):
        api.read_logs(tmp_path / "bomb.zip")


def test_what_is_no_log_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "cut.log.gz").write_bytes(b"\x1f\x8b damaged")
    (tmp_path / "good.log").write_text(log(108.2))
    names = ("fifo", "binary", "cut.log.gz", "absent")
    said = typed(tmp_path, "read", "good.log", *names)
    assert said.returncode == 0
    assert [line.partition(": ")[0] for line in said.stderr.splitlines()] == [names[3], *names[:3]]
    none = typed(tmp_path, "read", *names)
    assert (none.returncode, none.stdout) == (4, "")


def test_a_log_that_is_no_result_says_why(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(log(108.2) + log(54.1))
    said = typed(tmp_path, "read", "one.log")
    assert said.returncode == 1
    assert "one.log is no result" in said.stdout
    assert "several runs" in " ".join(said.stdout.split())


def test_a_log_that_grows_meanwhile_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, original = tmp_path / "one.log", logs_at_once.logged_runs
    file.write_text(log(108.2))

    def and_grows(*given: Any) -> Any:
        yield from original(*given)
        file.write_text(log(108.2) + "more\n")

    monkeypatch.setattr(logs_at_once, "logged_runs", and_grows)
    assert api.read_logs(file).left_out == (f"{file}: it grew meanwhile; only its beginning was read",)


def test_what_is_kept_is_what_import_keeps_and_progress_counts_files(tmp_path: Path) -> None:
    logs(tmp_path / "logs", "node", 3)
    files: list[int] = []
    read = api.read_logs(
        tmp_path / "logs", keep="kept", runs=tmp_path / "runs", tell=lambda count, _name: files.append(count)
    )
    assert files == [1, 2, 3]
    assert read.imported is not None
    [session] = read.imported.sessions
    assert (session.added, len(session.runs)) == (True, 3)
    [again] = api.import_(tmp_path / "logs", name="kept", runs=tmp_path / "runs").sessions
    assert (again.added, again.session.id) == (False, session.session.id)


def test_an_import_without_a_name_is_named_after_the_first_file_or_folder(tmp_path: Path) -> None:
    logs(tmp_path / "burn in", "node", 2)
    said = typed(tmp_path, "import", "burn in")
    assert (said.returncode, said.stdout.partition("/")[0]) == (0, "burn-in")


def test_a_closed_standard_input_is_an_error_and_no_crash(tmp_path: Path) -> None:
    line = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "assay", "read", "-"]
    said = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr.count("\n")) == (4, 1)
    assert "standard input: is closed" in said.stderr


def test_nothing_unpacked_stays_after_a_signal(tmp_path: Path) -> None:
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    line = [sys.executable, "-m", "assay", "read", "-"]
    with subprocess.Popen(line, env=own, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        until = time.monotonic() + 30
        while not [*tmp_path.glob("assay-read-*")]:
            assert time.monotonic() < until
            time.sleep(0.05)
        reader.terminate()
        assert reader.wait(20) == 130
    assert [*tmp_path.glob("assay-read-*")] == []

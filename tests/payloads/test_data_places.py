"""A directory and a bucket are one protocol; a store that fails or refuses says so without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

import s3_server
from assay_payloads.datasets import places
from assay_payloads.datasets.places import AbsentError, DataPlace, PlaceError, RefusedError, StoredFile, place


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No connection of an earlier test is used."""
    monkeypatch.setattr(places, "_CONNECTION", places._Connection())
    return monkeypatch


def use(monkeypatch: pytest.MonkeyPatch, s3: s3_server.S3Server, url: str = "", **secret: str) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3.environment(url, **secret).items():
        monkeypatch.setenv(name, value)


def holds_what_is_put(there: DataPlace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)))
    for name in ("a.bin", "b/c d#ü.bin"):
        there.put(name, source)
    found = dict(there.files())
    assert sorted(found) == ["a.bin", "b/c d#ü.bin"]
    assert found["a.bin"] == there.status("a.bin")
    assert found["a.bin"].size == 256
    assert there.read("b/c d#ü.bin") == bytes(range(256))
    assert there.read("a.bin", 250, 100) == bytes(range(250, 256))
    assert there.read("a.bin", 3, 2) == b"\3\4"
    assert there.read("a.bin", 3, 0) == b""
    with there.opened("a.bin") as file:
        file.seek(10)
        assert file.read(2) == b"\n\13"
    before: StoredFile = there.status("a.bin")
    source.write_bytes(bytes(reversed(range(256))))
    there.put("a.bin", source)
    assert there.status("a.bin").changed_ns != before.changed_ns
    there.remove("a.bin")
    assert [name for name, _ in there.files()] == ["b/c d#ü.bin"]
    for missing in (there.status, there.read):
        with pytest.raises(AbsentError, match=r"a\.bin"):
            missing("a.bin")


def test_a_directory_holds_what_is_put(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    holds_what_is_put(place(str(tmp_path / "there")), tmp_path)
    (tmp_path / "there" / "link").symlink_to(tmp_path / "source")
    assert [name for name, _ in place(str(tmp_path / "there")).files()] == ["b/c d#ü.bin"]


def test_a_bucket_holds_what_is_put(
    tmp_path: Path, s3: s3_server.S3Server, fresh: pytest.MonkeyPatch
) -> None:
    use(fresh, s3)
    (s3.root / "puts").mkdir()
    holds_what_is_put(place("s3://puts/some/where"), tmp_path)


@pytest.mark.long
def test_a_request_in_ten_may_fail(tmp_path: Path, s3: s3_server.S3Server, fresh: pytest.MonkeyPatch) -> None:
    (s3.root / "fails").mkdir()
    with s3_server.failing(s3.url) as (url, failed):
        use(fresh, s3, url)
        there = place("s3://fails")
        (tmp_path / "x").write_bytes(b"x" * 1000)
        for number in range(20):
            there.put(f"{number}", tmp_path / "x")
        assert sum(len(there.read(name)) for name, _ in there.files()) == 20_000
    assert failed[0] >= 4


def test_what_refuses_or_is_absent_is_said_without_a_secret(
    s3: s3_server.S3Server, fresh: pytest.MonkeyPatch
) -> None:
    (s3.root / "shut").mkdir()
    use(fresh, s3, secret="a-wrong-secret")
    with pytest.raises(
        RefusedError, match=r"s3://shut: the store refuses it .*AWS_SECRET_ACCESS_KEY"
    ) as refused:
        list(place("s3://shut").files())
    assert "a-wrong-secret" not in str(refused.value)
    assert s3_server.KEY not in str(refused.value)
    use(fresh, s3)
    with pytest.raises(AbsentError, match="s3://no-such-bucket: there is no such"):
        list(place("s3://no-such-bucket").files())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        fresh.delenv(name)
    with pytest.raises(RefusedError, match="there are no credentials"):
        place("s3://shut").read("x")


def test_a_store_that_is_not_there_is_said(s3: s3_server.S3Server, fresh: pytest.MonkeyPatch) -> None:
    use(fresh, s3, f"http://someone:a-password@127.0.0.1:{s3_server.free_port()}")
    fresh.setenv("AWS_MAX_ATTEMPTS", "1")
    fresh.setattr("s3fs.core.S3FileSystem.retries", 1)
    with pytest.raises(PlaceError, match=r"the store can't be used: .*\(at 127\.0\.0\.1:") as error:
        place("s3://shut").read("x")
    assert "a-password" not in str(error.value)


@pytest.mark.parametrize("address", ["s3://key:secret@bucket/x", "s3://", "gs://bucket", "s3:///x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(PlaceError) as error:
        place(address)
    assert "secret" not in str(error.value)

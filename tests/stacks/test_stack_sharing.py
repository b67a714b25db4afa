"""Observations as signed bundles: nothing private in them, nothing lost, nothing changed believed."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay import cli, store
from assay.errors import InputError
from assay.records import Provenance, Reading, Scalar
from assay.stacks import bundles
from assay.stacks.diff import diff_stacks
from assay.stacks.keys import key_text, own_signer
from assay.stacks.known import list_stacks
from assay.stacks.scrubbing import LEFT_OUT
from assay.stacks.sharing import export_stacks, import_stacks, trust_key
from assay.stacks.storage import bundles_dir, knowledge_file, own_key_file
from observed_stacks import MACHINE, NEW, OLD, failed, results

PRIVATE = {
    "host": "db7.secret-host.example.org",
    "kernel": "6.1.0-18-alicebuild",
    "os": "Debian GNU/Linux 12 (alice edition)",
    "python.executable": "/home/alice/env/bin/python",
    "env.LD_LIBRARY_PATH": "/home/alice/lib",
    "env.NCCL_SOCKET_IFNAME": "bobnet0",
    "env.OMP_NUM_THREADS": "4",
    "env.TORCH_ALICE": "1",
    "package.acme-secret-lib": "1.2",
    "package.scipy": "1.16.0+alice.build",
    "build.numpy": "alice_linux_x86_64",
    "conda.acme-blas": "1.0 alice_0",
    "kernel.options": "isolcpus=alice",
    "kubernetes.image_id": "registry.acme.lab/team-alice/torch@sha256:" + "ab" * 32,
    "kubernetes.pod": "alice-pod",
}
PLANTED = (
    "alice",
    "secret",
    "acme",
    "bobnet",
    "example.org",
    "db7",
    "/home",
    "projectx",
    "T101500Z",
    "t-old",
)


def made(runs: Path, *, sessions: int = 3, speed: float = 1.04, seed: int = 1, **more: Scalar) -> None:
    facts: Mapping[str, Mapping[str, Scalar]] = {"old": {**OLD, **more}, "new": {**NEW, **more}}
    found = results(facts, speeds={"new": speed}, sessions=sessions, seed=seed, suite="projectx")
    store.update(runs, found)


def assay_says(*words: object) -> Result:
    return CliRunner().invoke(cli.assay, ["stack", *map(str, words)])


def content(path: Path) -> bytes:
    return base64.b64decode(json.loads(path.read_text())["payload"])


def test_nothing_private_is_in_the_bytes_of_a_bundle(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    made(runs, **PRIVATE)
    crash = failed(
        results({"old": {**OLD, **PRIVATE}}, sessions=1, suite="projectx-broken")[0],
        "rank 0 exited 1: ImportError: /home/alice/lib/libsecret.so: cannot open shared object file",
    )
    store.update(runs, [crash])
    exported = export_stacks(tmp_path / "bundle.json", runs=runs)
    assert exported.shared == 7
    text = content(tmp_path / "bundle.json").decode()
    whole = (text + (tmp_path / "bundle.json").read_text()).lower()
    assert [word for word in PLANTED if word.lower() in whole] == []
    assert '"OMP_NUM_THREADS"' not in text
    assert '"env.OMP_NUM_THREADS":"4"' in text
    assert '"torch":"2.9.0"' in text
    assert '"ImportError"' in text


def test_what_is_left_out_still_makes_stacks_different(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    facts = {
        "old": {**OLD, "package.acme-secret-lib": "1.0"},
        "new": {**OLD, "package.acme-secret-lib": "2.0"},
    }
    store.update(runs, results(facts))
    export_stacks(tmp_path / "bundle.json", runs=runs)
    bundle = json.loads(content(tmp_path / "bundle.json"))
    assert len({stack["settings"][LEFT_OUT] for stack in bundle["stacks"]}) == 2


def test_the_users_own_programs_are_withheld(tmp_path: Path) -> None:
    params = {
        "argv": ["train", "--data", "/home/alice"],
        "metrics": {"rate": {"pattern": "(?P<value>x)", "better": "higher"}},
    }
    own = []
    for one in results(sessions=1):
        trial = replace(one.run.trial, workload="command", params=params)
        rate = replace(one.reading.measurements[0], metric="rate", unit="")
        own.append(replace(one, run=replace(one.run, trial=trial), reading=Reading((rate,))))
    store.update(tmp_path / "runs", own)
    with pytest.raises(InputError, match="nothing to share: 2 observations are of workloads or hardware"):
        export_stacks(tmp_path / "bundle.json", runs=tmp_path / "runs")


def test_what_others_observed_counts_once_their_key_is_trusted(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    made(theirs, sessions=3, seed=5)
    made(ours, sessions=2, seed=9)
    exported = assay_says("export", "-o", tmp_path / "bundle.json", "--runs", theirs)
    assert exported.exit_code == 0, exported.output
    key = trust_key(runs=theirs).own
    assert f"assay stack trust {key}" in exported.stdout
    refused = assay_says("import", tmp_path / "bundle.json", "--runs", ours)
    assert isinstance(refused.exception, InputError)
    assert "signed by a key that is not trusted" in str(refused.exception)
    assert not bundles_dir(ours).exists()
    assert f"trusted  {key}  lab-b" in assay_says("trust", key, "--name", "lab-b", "--runs", ours).stdout
    done = assay_says("import", tmp_path / "bundle.json", "--runs", ours)
    assert done.stdout == f"6 observations of lab-b ({key}), 6 of them new.\n"
    (change,) = diff_stacks("projectx:old", "projectx:new", runs=ours).changes
    (effect,) = change.effects
    assert effect.comparison.sessions == (5, 5)
    assert effect.origins == {"", key}
    trust_key(key, remove=True, runs=ours)
    (change,) = diff_stacks("projectx:old", "projectx:new", runs=ours).changes
    assert change.effects[0].comparison.sessions == (2, 2)


def test_a_bundle_alone_is_knowledge_without_any_run_here(tmp_path: Path) -> None:
    made(tmp_path / "theirs")
    export_stacks(tmp_path / "bundle.json", runs=tmp_path / "theirs")
    trust_key(trust_key(runs=tmp_path / "theirs").own, runs=tmp_path / "ours")
    import_stacks(tmp_path / "bundle.json", runs=tmp_path / "ours")
    assert len(list_stacks(runs=tmp_path / "ours").stacks) == 2


def test_what_others_observed_is_said_to_be_theirs(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    made(theirs)
    export_stacks(tmp_path / "bundle.json", runs=theirs)
    key = trust_key(runs=theirs).own
    trust_key(key, runs=ours)
    import_stacks(tmp_path / "bundle.json", runs=ours)
    digest = list_stacks(runs=ours).stacks[0].stack.digest
    said = assay_says("show", digest, "--runs", ours)
    assert f" of {key[:20]}…" in said.stdout
    assert "ed25519" not in assay_says("show", "projectx:old", "--runs", theirs).stdout


def test_bundles_that_overlap_are_merged_without_loss_or_repetition(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    trust_key(trust_key(runs=theirs).own, runs=ours)
    added = []
    for sessions in (2, 4):
        made(theirs, sessions=sessions)
        export_stacks(tmp_path / "bundle.json", runs=theirs)
        added.append(import_stacks(tmp_path / "bundle.json", runs=ours))
    assert [(one.observations, one.added, one.conflicts) for one in added] == [(4, 4, ()), (8, 4, ())]
    assert {stack.sessions for stack in list_stacks(runs=ours).stacks} == {4}
    again = import_stacks(tmp_path / "bundle.json", runs=ours)
    assert (again.added, again.conflicts) == (0, ())


@pytest.mark.long
def test_statements_that_contradict_each_other_are_shown_and_the_first_one_stays(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    trust_key(trust_key(runs=theirs).own, runs=ours)
    made(theirs, sessions=1, seed=1)
    export_stacks(tmp_path / "one.json", runs=theirs)
    import_stacks(tmp_path / "one.json", runs=ours)
    first = list_stacks(runs=ours)
    made(theirs, sessions=1, seed=2)
    knowledge_file(theirs).unlink()
    export_stacks(tmp_path / "two.json", runs=theirs)
    done = assay_says("import", tmp_path / "two.json", "--runs", ours)
    assert done.exit_code == 1
    assert done.stdout.count("! conflict in session") == 2
    assert list_stacks(runs=ours) == first


def test_the_same_runs_on_another_day_are_a_conflict(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    signer = own_signer(theirs)
    trust_key(key_text(signer.public_key), runs=ours)
    made(theirs, sessions=1)
    export_stacks(tmp_path / "one.json", runs=theirs)
    import_stacks(tmp_path / "one.json", runs=ours)
    _, bundle = bundles.opened(tmp_path / "one.json", {key_text(signer.public_key): ""})
    moved = tuple(replace(one, at=one.at - 30 * 86400) for one in bundle.observations)
    (tmp_path / "two.json").write_bytes(bundles.signed(replace(bundle, observations=moved), signer))
    again = import_stacks(tmp_path / "two.json", runs=ours)
    assert (again.added, len(again.conflicts)) == (0, 2)


def changed(path: Path, old: bytes, new: bytes) -> None:
    """The content of a bundle changed, its signature kept."""
    envelope = json.loads(path.read_text())
    payload = base64.b64decode(envelope["payload"])
    assert old in payload
    envelope["payload"] = base64.b64encode(payload.replace(old, new)).decode()
    path.write_text(json.dumps(envelope))


def test_a_bundle_that_was_changed_is_refused_before_it_is_read(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    made(theirs)
    export_stacks(tmp_path / "bundle.json", runs=theirs)
    trust_key(trust_key(runs=theirs).own, runs=ours)
    changed(tmp_path / "bundle.json", b"2.9.0", b"2.9.1")
    with pytest.raises(InputError, match="changed after it was signed"):
        import_stacks(tmp_path / "bundle.json", runs=ours)
    assert not bundles_dir(ours).exists()


def test_a_bundle_that_was_changed_after_its_import_is_named(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    made(theirs)
    export_stacks(tmp_path / "bundle.json", runs=theirs)
    trust_key(trust_key(runs=theirs).own, runs=ours)
    import_stacks(tmp_path / "bundle.json", runs=ours)
    changed(next(bundles_dir(ours).iterdir()), b"2.9.0", b"2.9.1")
    with pytest.raises(InputError, match="changed after it was signed"):
        list_stacks(runs=ours)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("not json", "not JSON"),
        ("[]", "not a signed bundle"),
        ('{"payload": "", "payloadType": "text/plain", "signatures": []}', "its payload is not"),
        ('{"payload": "e30=", "payloadType": "x", "signatures": [{"sig": 3}]}', "not a signed bundle"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "bundle.json").write_text(content)
    with pytest.raises(InputError, match=why):
        import_stacks(tmp_path / "bundle.json", runs=tmp_path / "runs")


def test_a_trusted_party_can_not_state_what_can_not_be(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    signer = own_signer(theirs)
    trust_key(key_text(signer.public_key), runs=ours)
    made(theirs)
    export_stacks(tmp_path / "bundle.json", runs=theirs)
    _, good = bundles.opened(tmp_path / "bundle.json", {key_text(signer.public_key): ""})
    first = good.observations[0]

    def with_setting(name: str, value: str) -> bundles.Bundle:
        return replace(good, stacks=(replace(good.stacks[0], settings={name: value}), *good.stacks[1:]))

    for wrong, why in (
        (replace(good, schema=99), "update Assay"),
        (replace(good, observations=(replace(first, stack=99),)), "not in its tables"),
        (replace(good, observations=(replace(first, failure="crashes"),)), "both a figure and a failure"),
        (replace(good, observations=(replace(first, confidence=0.5),)), "a confidence or a share"),
        (replace(good, observations=(replace(first, at=2e9 * 4),)), "a day to come"),
        (replace(good, observations=(replace(first, at=-1e18),)), "or before 1970"),
        (replace(good, observations=(replace(first, values=((1, -5.0),)),)), "a flop_rate that can't be"),
        (replace(good, observations=(replace(first, values=((10**30, 5.0),)),)), "a block that can't be"),
        (with_setting("env.LD_PRELOAD", "/tmp/evil.so"), "never shares: env.LD_PRELOAD"),
        (with_setting("env.OMP_NUM_THREADS", "4; rm"), "never shares: env.OMP_NUM_THREADS"),
        (
            replace(good, stacks=(replace(good.stacks[0], system={"os": "Debian GNU/Linux 12\nok"}),)),
            "a text that",
        ),
        (
            replace(good, stacks=(replace(good.stacks[0], packages={"torch": "2 ; rm -rf /"}),)),
            "which is none",
        ),
    ):
        (tmp_path / "wrong.json").write_bytes(bundles.signed(wrong, signer))
        with pytest.raises(InputError, match=why):
            import_stacks(tmp_path / "wrong.json", runs=ours)


def test_the_private_key_is_readable_by_its_owner_only_and_stays_the_same(tmp_path: Path) -> None:
    first = trust_key(runs=tmp_path).own
    assert stat.S_IMODE(own_key_file(tmp_path).stat().st_mode) == 0o600
    assert trust_key(runs=tmp_path).own == first
    with pytest.raises(InputError, match="this is the own key"):
        trust_key(first, runs=tmp_path)
    with pytest.raises(InputError, match="is not a key"):
        trust_key("ed25519:12", runs=tmp_path)
    own_key_file(tmp_path).write_text("not a key")
    with pytest.raises(InputError, match="not a private key"):
        trust_key(runs=tmp_path)


def test_the_machine_of_the_tests_has_private_names() -> None:
    """The planted words are really in what the bundle is made of."""
    said = json.dumps([*Provenance(({**MACHINE, **OLD, **PRIVATE},)).nodes]).lower()
    assert all(word.lower() in said for word in PLANTED[:7])

"""Advice on versions: resolved by uv from a real index, decided by what runs observed."""

from __future__ import annotations

import json
import math
import random
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from packaging.requirements import Requirement

from advised_stacks import advised_from
from assay import cli, store
from assay.errors import HostError, InputError
from assay.records import Measurement, Reading
from assay.stacks.advice import AdviceRequest, Evidence, front
from assay.stacks.advise import advise_stack
from assay.stacks.advisories import AdvisoryDatabase, advisory_of
from assay.stacks.indicators import series_of
from assay.stacks.stack import HardwareClass, Observation, Stack, StackMetric, StackWorkload
from assay.stacks.uv import requirements_of
from assay.workloads.workload import PEAK_RSS
from observed_stacks import failed, results
from package_index import PackageIndex, Release

FAST = {"package.fastmath": "1.0", "package.base": "1.0"}
SLOW = {"package.fastmath": "2.0", "package.base": "1.0"}
BETA = {"package.fastmath": "3.0rc1", "package.base": "1.0"}
YEARS = 20 * 365 * 86400.0  # the made runs are of a day in the past


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with three versions, and a machine of the class that the made runs are from."""
    releases = [
        *(Release("fastmath", version, ["base"]) for version in ("1.0", "2.0", "3.0rc1")),
        Release("base", "1.0"),
        Release("base", "1.1"),
        Release("old", "1.0", yanked="breaks everything"),
    ]
    with advised_from(releases, tmp_path, monkeypatch) as served:
        yield served


def assay_says(*words: object) -> Result:
    return CliRunner().invoke(cli.assay, ["stack", "advise", *map(str, words)])


def observed(runs: Path, **speeds: float) -> None:
    store.update(runs, results({"new": SLOW, "old": FAST}, speeds=speeds, sessions=4))


def test_the_older_version_is_advised_if_it_is_shown_to_be_faster(
    tmp_path: Path, index: PackageIndex
) -> None:
    observed(tmp_path / "runs", old=1.06)
    done = assay_says(
        "fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s", "-o", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(
        "For performance on AMD EPYC 7763 64-Core Processor (8 CPUs), install fastmath 1.0"
    )
    assert "faster than the reference" in done.stdout
    assert "4 + 4 sessions" in done.stdout
    assert "sessions: stacks/2026-03-01T101500Z" in done.stdout
    assert "memory not measured" in done.stdout
    requirements = (tmp_path / "out" / "requirements.txt").read_text()
    assert "fastmath==1.0" in requirements
    assert "base==1.0" in requirements  # as it was measured, although 1.1 is out
    assert "--hash=sha256:" in requirements
    assert 'name = "fastmath"' in (tmp_path / "out" / "pylock.toml").read_text()


def with_memory(runs: Path, **needed_bytes: float) -> None:
    """Equally fast stacks, each of whose runs had this much memory."""
    made = results(
        {"new": SLOW, "old": FAST}, sessions=4, spread=1e-4, session_spread=0, stack_session_spread=0
    )
    store.update(
        runs,
        [
            replace(
                one,
                reading=Reading(
                    (
                        *one.reading.measurements,
                        Measurement(
                            PEAK_RSS.name, needed_bytes[one.run.trial.system], "B", {}, "run.json", 0
                        ),
                    )
                ),
            )
            for one in made
        ],
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "on_front"),
    [
        pytest.param(2e9, {"2.0"}, id="more"),
        pytest.param(5e8, {"1.0"}, id="less", marks=pytest.mark.long),
        pytest.param(1.51e9, {"1.0", "2.0"}, id="as much", marks=pytest.mark.long),
    ],
)
def test_a_stack_that_needs_more_memory_and_is_otherwise_equal_is_not_on_the_front(
    tmp_path: Path, index: PackageIndex, old: float, on_front: set[str]
) -> None:
    with_memory(tmp_path / "runs", new=1.5e9, old=old)
    found = advise_stack("fastmath", max_age_s=YEARS, runs=tmp_path / "runs").evidence
    assert [one.verdict for one in found.candidates] == ["reference", "equivalent"]
    memory = [one.memory.estimate.value for one in found.candidates if one.memory is not None]
    assert memory == pytest.approx([1.5e9, old])
    equal = {one.stack.digest: 1 for one in found.candidates}
    best = front(found, equal, equal)
    assert {o.stack.packages["fastmath"] for o in found.candidates if o.stack.digest in best} == on_front
    done = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s")
    assert "; largest process 1.5 GB" in done.stderr


def explored(runs: Path, *, fast: float) -> None:
    """Two batches next to a stack of another Python, which is the only link between them, and the fastest."""
    today = {**SLOW, "package.base": "1.1", "python.version": "3.12.1"}
    for suite, name, facts in (("one", "new", SLOW), ("two", "old", FAST)):
        made = results({"today": today, name: facts}, speeds={"today": 2.0, "old": fast}, suite=suite)
        store.update(runs, made)


def test_stacks_that_only_one_of_another_python_links_are_compared_through_it(
    tmp_path: Path, index: PackageIndex
) -> None:
    explored(tmp_path / "runs", fast=1.5)
    done = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s")
    assert done.exit_code == 0, done.output
    assert "install fastmath 1.0" in done.stderr
    assert "faster than the reference" in done.stderr
    assert "never measured in one session: compared through fastmath 2.0, Python 3.12.1" in done.stderr
    found = advise_stack("fastmath", max_age_s=YEARS, runs=tmp_path / "runs")
    assert {one.candidate.stack.system["python.version"] for one in found.candidates} == {"3.11.7"}


def test_a_stack_that_is_slower_through_a_common_one_is_not_advised(
    tmp_path: Path, index: PackageIndex
) -> None:
    explored(tmp_path / "runs", fast=0.8)
    found = advise_stack("fastmath", max_age_s=YEARS, runs=tmp_path / "runs")
    assert found.lock.versions["fastmath"] == "2.0"
    assert found.decided


def test_newest_versions_that_were_not_measured_are_said_to_be_unknown(
    tmp_path: Path, index: PackageIndex
) -> None:
    older = {**FAST, "package.base": "1.1"}
    made = results({"a": FAST, "b": older}, speeds={"b": 1.06}, sessions=4)
    store.update(tmp_path / "runs", made)
    done = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s")
    assert done.exit_code == 0  # of what was measured, a verdict decides
    assert "The newest versions were not measured here: whether they are faster is unknown." in done.stderr


def test_what_is_advised_becomes_a_container_file_with_the_same_lock(
    tmp_path: Path, index: PackageIndex
) -> None:
    observed(tmp_path / "runs", old=1.06)
    words = ["fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s", "-o", tmp_path / "out"]
    done = assay_says(*words, "--containerfile")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "Containerfile").read_text()
    pins = (tmp_path / "out" / "requirements.txt").read_text().replace(" \\\n    ", " ").split("\n")
    assert all(f"'{pin.strip()}'" in text for pin in pins if pin)
    assert f"--from {tmp_path / 'out' / 'pylock.toml'}" in text
    assert assay_says("fastmath", "--containerfile").exit_code == 2  # it has no directory to go to


@pytest.mark.long
def test_a_thread_count_is_part_of_the_advice_only_if_somebody_chose_it(
    tmp_path: Path, index: PackageIndex
) -> None:
    for threads, expected in (("8", {}), ("4", {"OMP_NUM_THREADS": "4"})):  # a launcher sets 8 on 8 CPUs
        software = {"new": SLOW, "old": {**FAST, "env.OMP_NUM_THREADS": threads}}
        runs = tmp_path / threads
        store.update(runs, results(software, speeds={"old": 1.06}, sessions=4))
        assert advise_stack("fastmath", max_age_s=YEARS, runs=runs).settings == expected


@pytest.mark.long
def test_the_newest_version_is_kept_if_no_other_is_faster(tmp_path: Path, index: PackageIndex) -> None:
    observed(tmp_path / "runs", old=0.95)
    found = advise_stack("fastmath", max_age_s=YEARS, runs=tmp_path / "runs")
    assert found.chosen is not None
    assert found.lock.versions["fastmath"] == "2.0"
    assert found.decided


def test_what_was_not_compared_is_not_called_advice(tmp_path: Path, index: PackageIndex) -> None:
    store.update(tmp_path / "runs", results({"new": SLOW}))
    done = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s")
    assert done.exit_code == 3
    assert "Measured, but not shown to be faster or slower than any other" in done.stderr
    assert "assay stack explore FILE" in done.stderr


def test_sessions_while_others_used_the_cpus_do_not_decide_where_there_are_undisturbed_ones() -> None:
    hardware, dice = HardwareClass("CPU"), random.Random(5)
    work, rate = StackWorkload("matmul", "1x1", {}), StackMetric("flop_rate", "FLOP/s", "higher")
    found = []
    for session in range(9):
        day, lost = dice.gauss(0, 0.1), 0.0 if session < 3 else 0.5
        for version, factor in (("2.0", 1.0), ("1.0", 1.3 if lost else 1.0)):
            values = [(at, math.exp(day + dice.gauss(0, 0.01)) * factor) for at in range(1, 6)]
            stack = Stack({}, {"fastmath": version})
            one = Observation(stack, hardware, work, rate, f"s/{session}", 1.0 + session, primary=True)
            found.append(replace(one, values=tuple(values), interleaved=True, lost_to_others=lost))

    def evidence(observed: list[Observation]) -> Evidence:
        requirements = [Requirement("fastmath")]
        deciding = series_of(found[0])
        request = AdviceRequest(observed, requirements, hardware, None, 0.0, {"fastmath": "2.0"}, 0.02)
        return request.gathered(deciding)

    mixed, clean = evidence(found), evidence(found[:6])
    assert mixed.busy == 12
    assert [one.comparison for one in mixed.candidates] == [one.comparison for one in clean.candidates]
    only_busy = evidence(found[6:])
    assert only_busy.busy == 0, "nothing better is known"
    assert only_busy.candidates[1].comparison is not None
    assert only_busy.candidates[1].verdict == "undecided"


@pytest.mark.parametrize("is_there", [False, True])
def test_where_nothing_is_known_it_says_so_and_how_to_measure(
    tmp_path: Path, index: PackageIndex, is_there: bool
) -> None:
    if is_there:
        (tmp_path / "runs").mkdir()
    done = assay_says("fastmath", "--runs", tmp_path / "runs")
    assert done.exit_code == 3, done.output
    assert done.stderr.startswith("Nothing measured on AMD EPYC")
    assert "fastmath 2.0: uv's choice, by no measurement" in done.stderr
    assert "To measure them here: assay stack explore FILE" in done.stderr
    assert "fastmath==2.0" in done.stdout


def test_old_and_foreign_observations_are_counted_and_do_not_decide(
    tmp_path: Path, index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed(tmp_path / "runs", old=1.06)
    stale = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", "1h")
    assert stale.exit_code == 3
    assert "Not used: 8 observations older than --max-age." in stale.stderr
    monkeypatch.setattr("assay.stacks.advise.hardware_here", lambda: HardwareClass("another CPU"))
    foreign = assay_says("fastmath", "--runs", tmp_path / "runs", "--max-age", f"{YEARS}s")
    assert "Not used: 8 observations on other hardware." in foreign.stderr


@pytest.mark.long
def test_stable_takes_what_worked_in_several_sessions_without_a_failure(
    tmp_path: Path, index: PackageIndex
) -> None:
    made = results({"new": SLOW, "old": FAST}, sessions=3)
    made[0] = failed(made[0], "rank 0 was killed by SIGSEGV", signal="SIGSEGV")
    store.update(tmp_path / "runs", made)
    found = advise_stack("fastmath", goal="stable", max_age_s=YEARS, runs=tmp_path / "runs")
    assert found.lock.versions["fastmath"] == "1.0"
    latest = assay_says("fastmath", "--goal", "latest", "--runs", tmp_path / "runs")
    assert latest.exit_code == 1
    assert "These versions are known to fail here" in latest.stderr
    assert "crashes (matmul 1x1)" in latest.stderr


def test_what_was_measured_and_does_not_decide_is_not_called_unmeasured(
    tmp_path: Path, index: PackageIndex
) -> None:
    store.update(tmp_path / "runs", results({"new": FAST, "old": SLOW}, sessions=1))
    words = ("--goal", "stable", "--max-age", "10000d", "--runs", tmp_path / "runs")
    done = assay_says("fastmath", *words)
    assert done.exit_code == 3, done.output
    assert done.stderr.startswith("No measurement decides on")
    assert "fastmath 2.0: uv's choice, by no measurement" in done.stderr
    assert "in 1 session" in done.stderr


def test_testing_takes_a_pre_release_and_latest_does_not(tmp_path: Path, index: PackageIndex) -> None:
    versions = {
        goal: advise_stack("fastmath", goal=goal, runs=tmp_path / "runs").lock.versions["fastmath"]
        for goal in ("latest", "testing")
    }
    assert versions == {"latest": "2.0", "testing": "3.0rc1"}


def advisory(name: str, *, introduced: str, fixed: str | None, **more: object) -> dict[str, object]:
    events = [{"introduced": introduced}, *([{"fixed": fixed}] if fixed else [])]
    return {
        "id": f"PYSEC-{name}",
        "summary": "reads any file",
        "aliases": ["CVE-2026-1"],
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": name},
                "ranges": [{"type": "ECOSYSTEM", "events": events}],
            }
        ],
        **more,
    }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """An archive as OSV exports it."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", json.dumps(advisory("FastMath", introduced="2.0", fixed=None)))
        archive.writestr("b.json", json.dumps(advisory("base", introduced="0", fixed="9", withdrawn="2026")))
    return path


def test_security_excludes_vulnerable_versions_and_the_others_flag_them(
    tmp_path: Path, index: PackageIndex, database: Path
) -> None:
    words = ("fastmath", "--runs", tmp_path / "runs", "--advisories", database)
    secure = assay_says(*words, "--goal", "security")
    assert secure.exit_code == 0, secure.output
    assert "fastmath==1.0" in secure.stdout
    assert "Excluded as vulnerable: fastmath!=2.0." in secure.stderr
    flagged = assay_says(*words, "--goal", "latest")
    assert flagged.exit_code == 1
    assert "! vulnerable: fastmath 2.0: PYSEC-FastMath, CVE-2026-1: reads any file" in flagged.stderr
    with pytest.raises(InputError, match="needs a database"):
        advise_stack("fastmath", goal="security", runs=tmp_path / "runs")


def test_what_the_index_says_of_vulnerabilities_excludes_and_flags(
    tmp_path: Path, index: PackageIndex
) -> None:
    known = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["2.1"], "summary": "reads any file"}
    for one in index.releases:
        if (one.name, one.version) == ("fastmath", "2.0"):
            one.vulnerabilities = [known, {**known, "id": "PYSEC-2", "withdrawn": "2026-01-01"}]
    words = ("fastmath", "--runs", tmp_path / "runs", "--advisories", "index")
    flagged = assay_says(*words, "--goal", "latest")
    assert flagged.exit_code == 1, flagged.output
    assert "! vulnerable: fastmath 2.0: PYSEC-1, CVE-1: reads any file; fixed in 2.1" in flagged.stderr
    assert "PYSEC-2" not in flagged.stderr
    secure = assay_says(*words, "--goal", "security")
    assert secure.exit_code == 0, secure.output
    assert "fastmath==1.0" in secure.stdout


def test_the_text_of_an_advisory_stays_on_one_line() -> None:
    entry = {"id": "X\n1", "aliases": ["CVE-1\nnone known"], "details": "reads\nany file"}
    found = advisory_of(entry, "torch", "2.0", ())
    assert (found.id, found.aliases, found.summary) == ("X 1", ("CVE-1 none known",), "reads")


def test_an_index_that_says_nothing_of_vulnerabilities_is_an_error(
    tmp_path: Path, index: PackageIndex
) -> None:
    for one in index.releases:
        one.vulnerabilities = None
    with pytest.raises(HostError, match="known vulnerabilities is unknown"):
        advise_stack("fastmath", goal="latest", advisories="index", runs=tmp_path / "runs")


@pytest.mark.parametrize(
    ("version", "affected"),
    [("1.9", False), ("2.0", True), ("2.0+cu128", True), ("2.4.1", True), ("2.5", False), ("3.0", True)],
)
def test_ranges_are_read_as_the_format_says(tmp_path: Path, version: str, affected: bool) -> None:
    entry = advisory("torch", introduced="2.0", fixed="2.5")
    entry["affected"].append({"package": {"ecosystem": "PyPI", "name": "torch"}, "versions": ["3.0"]})  # type: ignore[attr-defined]
    (tmp_path / "one.json").write_text(json.dumps(entry))
    assert bool(AdvisoryDatabase(tmp_path / "one.json").affecting({"torch": version})) is affected


@pytest.mark.parametrize(
    "affected",
    [
        {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}, {"fixed": "3f2a"}]}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "zzz"}, {"fixed": "!!"}]}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": 7}]}]},
        {},
        {"versions": [2.1]},
        {"versions": "2.1"},
        {"versions": ["2.1"], "ranges": None},
        {"ranges": [{"type": "ECOSYSTEM", "events": [None]}]},
    ],
    ids=["commits only", "no versions", "a number", "nothing", "numbers", "text", "no ranges", "no events"],
)
def test_an_advisory_that_says_no_versions_is_taken_to_affect_each(
    tmp_path: Path, affected: dict[str, object]
) -> None:
    entry = {"id": "X-1", "affected": [{"package": {"ecosystem": "PyPI", "name": "torch"}, **affected}]}
    (tmp_path / "one.json").write_text(json.dumps(entry))
    (found,) = AdvisoryDatabase(tmp_path / "one.json").affecting({"torch": "2.8.0"})
    assert (found.id, found.fixed) == ("X-1", ())
    assert "which versions it affects can't be read" in found.summary


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("all.zip", "no zip", "not a zip archive"),
        ("a.json", "{", "not JSON"),
        ("a.json", "{}", "it has no id of one word"),
        ("a.json", '{"id": "X", "withdrawn": "2026"}', "it has no advisory"),
        ("a.json", '{"id": "X", "affected": 1}', "not a list of tables"),
        ("a.json", '{"id": "X"}', "none of its 1 advisories is for PyPI"),
        (
            "a.json",
            '{"id": "X", "affected": [{"package": {"ecosystem": "npm", "name": "a"}, "versions": ["1"]}]}',
            "none of its 1 advisories is for PyPI",
        ),
        ("a.json", '{"id": "X", "affected": [{"package": 3}]}', "`package` is not a table"),
        ("a.json", '{"id": "X", "affected": [{"package": null}]}', "none of its 1 advisories is for PyPI"),
        ("a.json", '{"id": "X\\nVulnerabilities: none known."}', "it has no id of one word"),
    ],
)
def test_a_database_that_is_none_is_an_error_and_not_a_clean_bill(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=why):
        AdvisoryDatabase(tmp_path / name)


def test_the_resolvers_reason_comes_whole_and_first(tmp_path: Path, index: PackageIndex) -> None:
    with pytest.raises(InputError) as error:
        advise_stack(["fastmath==1.0", "base<1"], runs=tmp_path)
    assert str(error.value).startswith("error: No solution found")
    assert "Because" in str(error.value)


def test_an_index_that_is_down_is_said_to_be(
    tmp_path: Path, index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(HostError, match="package index can't be reached"):
        advise_stack("fastmath", runs=tmp_path)


def test_a_version_that_its_author_withdrew_is_flagged(tmp_path: Path, index: PackageIndex) -> None:
    done = assay_says("old==1.0", "--goal", "latest", "--runs", tmp_path / "runs")
    assert "withdrawn by its author (yanked): breaks everything" in done.stderr, done.output


def test_every_requirement_that_is_none_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("numpy\n???\n-r other.txt\n")
    with pytest.raises(InputError) as error:
        requirements_of([str(path), "!!"])
    assert [problem.where for problem in error.value.problems] == [f"{path}:2", "!!"]
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2"]\n')
    assert [str(one) for one in requirements_of([str(tmp_path / "pyproject.toml")])] == ["torch>=2"]

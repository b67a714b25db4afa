"""Scores by the rules of benchmark and round, and what is doubted about a set."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.doubts.result_sets import doubts_of_set
from assay.analyse.mlperf.rounds import ScoringRule, rule_for
from assay.analyse.mlperf.score import olympic_mean, score
from assay.cli.question_command import command_of
from assay.errors import InputError
from assay.questions.score import Score as ScoreQuestion
from assay.records import Doubt, Scalar, TrainingRun, TrainingStatus


def run(
    minutes: float | None = 10.0,
    *,
    file: str = "result_0.txt",
    status: TrainingStatus = "success",
    batch: int = 256,
    facts: dict[str, Scalar] | None = None,
    doubts: tuple[Doubt, ...] = (),
) -> TrainingRun:
    return TrainingRun(
        file=file, status=status, problem="" if status == "success" else "it stopped", benchmark="resnet",
        round="v3.1", minutes=minutes if status == "success" else None, init_minutes=None, epochs=None,
        samples=None, global_batch_size=batch, train_samples=None, evaluations=(),
        hyperparameters=facts or {}, doubts=doubts, target_reached=True,
    )  # fmt: skip


def scored(
    runs: list[TrainingRun], benchmark: str | None = "resnet", round_: str = "v3.1", factor: float = 1.0
) -> Any:
    return score(runs, benchmark=benchmark, round_=round_, scaling_factor=factor)


@pytest.mark.parametrize(
    ("benchmark", "round_", "rule"),
    [
        ("resnet", "v0.6", ScoringRule(5)),
        ("dlrm", "v1.1", ScoringRule(5)),
        ("dlrm_dcnv2", "v4.0", ScoringRule(10)),
        ("bert", None, ScoringRule(10)),
        ("gpt3", "v3.1", ScoringRule(3)),
        ("unet3d", "v2.1", ScoringRule(40, dropped=4, failures=4)),
        ("ncf", "v0.5", ScoringRule(100, failures=50, counted=50)),
        ("ncf", "v0.6", ScoringRule(10)),
        ("digits", None, None),
        (None, "v3.1", None),
    ],
)
def test_the_rule_is_that_of_the_benchmark_and_round(
    benchmark: str | None, round_: str | None, rule: ScoringRule | None
) -> None:
    assert rule_for(benchmark, round_) == rule


def test_the_score_leaves_out_the_fastest_and_the_slowest() -> None:
    result = scored([run(m) for m in (90.0, 11.0, 10.0, 12.0, 1.0)], factor=1.5)
    assert (result.minutes, result.scaled) == (11.0, 16.5)
    assert (result.mean, result.runs, result.converged) == (pytest.approx(24.8), 5, 5)
    assert result.std == pytest.approx(36.7110, abs=1e-4)
    assert result.doubts == ()


def test_one_run_that_did_not_converge_is_the_slowest_and_is_told() -> None:
    result = scored([*(run(m) for m in (11.0, 10.0, 12.0, 1.0)), run(status="aborted")])
    assert result.minutes == 11.0
    (doubt,) = result.doubts
    assert doubt.code == "not-converged"
    assert "1 of 5 runs" in doubt.evidence


def test_two_runs_that_did_not_converge_are_no_result() -> None:
    result = scored([*(run(m) for m in (11.0, 10.0, 12.0)), *[run(status="aborted")] * 2])
    assert (result.minutes, result.scaled) == (None, None)
    assert result.doubts[0].evidence == "2 runs did not converge, 1 may"


@pytest.mark.parametrize("status", ["unfinished", "invalid"])
def test_a_broken_log_is_not_a_run_that_failed_to_converge(status: TrainingStatus) -> None:
    result = scored([*[run(m) for m in (11.0, 10.0, 12.0, 9.0)], run(status=status, file="result_4.txt")])
    assert result.minutes is None
    assert (result.doubts[0].code, result.doubts[0].evidence) == ("unusable-run", "result_4.txt: it stopped")


def test_the_official_rule_drops_one_broken_log_as_the_slowest_and_is_kept_apart() -> None:
    whole = [run(m) for m in (11.0, 10.0, 12.0, 9.0)]
    assert scored([*whole, run(status="unfinished")]).official == 11.0
    assert scored([*whole, run(13.0)]).official is None, "the set has a score"
    assert scored([*whole[1:], run(status="unfinished"), run(status="invalid")]).official is None
    assert scored([*whole[1:], run(status="unfinished"), run(status="aborted")]).official is None
    assert scored([*whole, *whole, run(status="unfinished")]).official is None, "not as many runs as the rule"
    unet3d = [*[run(float(m)) for m in range(1, 40)], run(status="unfinished")]
    assert scored(unet3d, "unet3d").official == pytest.approx(sum(range(5, 37)) / 32)


def test_a_success_that_no_target_could_check_is_doubted() -> None:
    unchecked = [replace(run(10.0 + n), target_reached=None) for n in range(5)]
    [doubt] = doubts_of_set(unchecked, system=None, system_facts={})
    assert (doubt.code, doubt.evidence) == (
        "target-unknown", "5 of 5 runs claim success; no target is known for resnet in v3.1"
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 4, 6, 10])
def test_another_number_of_runs_than_the_rules_has_no_score(count: int) -> None:
    result = scored([run() for _ in range(count)])
    assert result.minutes is None
    assert result.doubts[0].code == "run-count"


def test_unet3d_drops_four_on_each_side_and_bears_four_failures() -> None:
    minutes = [float(m) for m in range(1, 37)]
    result = scored([*map(run, minutes), *[run(status="aborted")] * 4], "unet3d")
    assert result.minutes == sum(range(5, 37)) / 32
    assert scored([*map(run, minutes[:35]), *[run(status="aborted")] * 5], "unet3d").minutes is None


def test_ncf_of_v05_counts_the_first_fifty_that_converge() -> None:
    runs = [run(status="aborted"), *(run(float(m)) for m in range(1, 51)), *[run(1000.0)] * 49]
    result = scored(runs, "ncf", "v0.5")
    assert result.minutes == sum(range(2, 50)) / 48


def test_a_benchmark_without_a_rule_has_no_score() -> None:
    assert scored([run()], None).doubts[0].evidence == "the logs name no benchmark"
    assert scored([run()], "digits").doubts[0].code == "no-rule"


def test_a_factor_that_is_not_known_leaves_the_raw_score() -> None:
    result = score([run()] * 5, benchmark="resnet", round_=None, scaling_factor=None)
    assert (result.minutes, result.scaled) == (10.0, None)


@given(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=40), st.floats(1.0, 1e5))
def test_a_failed_run_is_worth_any_run_slower_than_all(minutes: list[float], slower: float) -> None:
    failed = olympic_mean(minutes, failed=1, dropped=1)
    assert failed == pytest.approx(olympic_mean([*minutes, max(minutes) + slower], failed=0, dropped=1))
    assert min(minutes) <= failed * (1 + 1e-9)
    assert failed <= max(minutes) * (1 + 1e-9)


def test_an_olympic_mean_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no run is left"):
        olympic_mean([1.0, 2.0], failed=0, dropped=1)
    with pytest.raises(ValueError, match="2 failed runs"):
        olympic_mean([1.0, 2.0, 3.0], failed=2, dropped=1)


def doubts(runs: list[TrainingRun], system: str | None = None, **facts: str) -> dict[str, str]:
    return {d.code: d.evidence for d in doubts_of_set(runs, system=system, system_facts=facts)}


def test_a_set_without_contradictions_has_no_doubts() -> None:
    runs = [run(10.0 + n, facts={"seed": n, "d_batch_size": 32}) for n in range(5)]
    assert (
        doubts(runs, "dgx", number_of_nodes="1", accelerators_per_node="8", operating_system="Ubuntu") == {}
    )


def test_equal_seeds_are_doubted() -> None:
    runs = [run(10.0, file="a", facts={"seed": 1}), run(11.0, file="b", facts={"seed": 1})]
    assert doubts(runs) == {"equal-seeds": "a, b have seed 1"}


def test_a_copied_file_is_doubted() -> None:
    assert doubts([run(file="a"), run(file="b"), run(11.0)]) == {
        "same-run-twice": "equal times and evaluations: a = b"
    }


def test_runs_at_two_batch_sizes_are_no_repetitions() -> None:
    found = doubts([run(10.0), run(11.0, batch=512)])
    assert found == {"mixed-runs": "the runs differ in global batch size: 256 in 1, 512 in 1"}


def test_a_system_file_that_contradicts_the_logs_is_doubted() -> None:
    runs = [run(facts={"d_batch_size": 32})]
    assert (
        "says 2 nodes x 8 accelerators, batch sizes in the logs 8 in 1 of 1 run"
        in (doubts(runs, number_of_nodes="2", accelerators_per_node="8")["system-contradicts"])
    )
    assert doubts(runs, number_of_nodes="", accelerators_per_node="8") == {}
    assert doubts(runs, "sys-OpenShift", operating_system="Red Hat CoreOS 4.13") == {}
    assert (
        "Ubuntu 20.04" in doubts(runs, "sys-OpenShift", operating_system="Ubuntu 20.04")["system-contradicts"]
    )


def test_placeholders_and_doubts_of_single_runs_are_told_once_a_set() -> None:
    runs = [
        run(
            float(n),
            file=f"r{n}",
            facts={"submission_org": "X_PLACEHOLDER"},
            doubts=(Doubt("cold", "line 3", "warm"),),
        )
        for n in range(3)
    ]
    assert doubts(runs) == {
        "placeholder": "submission_org is X_PLACEHOLDER in 3 of 3 runs",
        "cold": "3 of 3 runs, as r0: line 3",
    }


def assay_score(*arguments: object) -> Result:
    return CliRunner().invoke(command_of(ScoreQuestion), [str(argument) for argument in arguments])


@pytest.mark.mlperf_logs
def test_the_published_scores_follow_from_the_logs(mlperf_logs: Path) -> None:
    result = assay_score(mlperf_logs, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "assay.score/1"
    sets = {found["set"]: found for found in document["sets"]}
    rows = [line.split(" | ") for line in (mlperf_logs / "scores.txt").read_text().splitlines()[1:]]
    assert set(sets) == {row[0] for row in rows}
    for name, runs, converged, mean, std, olympic, factor, scaled in rows:
        found = sets[name]
        assert len(found["runs"]) == int(runs)
        assert sum(one["status"] == "success" for one in found["runs"]) == int(converged)
        assert found["scaling_factor"] == pytest.approx(float(factor))
        for key, printed in {"mean_minutes": mean, "std_minutes": std, "score_minutes": olympic,
                             "scaled_score_minutes": scaled}.items():  # fmt: skip
            expected = pytest.approx(float(printed), abs=1e-4) if printed.strip() else None
            assert found[key] == expected, (name, key)


@pytest.mark.mlperf_logs
def test_what_real_sets_hide_is_doubted(mlperf_logs: Path) -> None:
    sets = {found["set"]: found for found in json.loads(assay_score(mlperf_logs, "--json").stdout)["sets"]}
    openshift = sets["v3.1/Supermicro-RedHat/AS-4125GS-TNRT-RedHat-OpenShift/resnet"]
    codes = {doubt["code"] for doubt in openshift["doubts"]}
    assert codes >= {"cache-not-cleared", "system-contradicts", "placeholder"}
    aborted = sets["v3.1/Supermicro/SYS-681E-TR/resnet"]["runs"][0]
    assert (aborted["status"], aborted["minutes"], aborted["samples_per_s"]) == ("aborted", None, None)


@pytest.mark.mlperf_logs
def test_each_broken_file_is_named_and_the_set_has_no_score(mlperf_logs: Path, tmp_path: Path) -> None:
    source = mlperf_logs / "v3.0/Supermicro/AS-4125GS-TNRT_8_H100-PCIe-80GB/resnet"
    leaf = tmp_path / "sys" / "resnet"
    shutil.copytree(source, leaf)
    whole = (leaf / "result_0.txt").read_bytes()
    (leaf / "result_0.txt").write_bytes(whole[: len(whole) * 9 // 10])
    (leaf / "result_1.txt").write_bytes(b"")
    before = {path: path.read_bytes() for path in leaf.iterdir()}
    result = assay_score(tmp_path)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "result_0.txt: no run_stop: the last event is" in text
    assert "result_1.txt: the file is empty" in text
    assert "no score; mean 21.049 min" in text
    assert {path: path.read_bytes() for path in leaf.iterdir()} == before


def test_a_file_of_a_set_that_can_not_be_read_is_doubted(tmp_path: Path) -> None:
    leaf = tmp_path / "sys" / "resnet"
    leaf.mkdir(parents=True)
    (leaf / "result_0.txt").write_text("no log\n")
    (leaf / "scaling.json").write_text("{")
    [found] = json.loads(assay_score(tmp_path, "--json").stdout)["sets"]
    doubts = [doubt for doubt in found["doubts"] if doubt["code"] == "unreadable-file"]
    assert any("scaling.json: can't be read as JSON" in doubt["evidence"] for doubt in doubts)
    assert {doubt["remedy"] for doubt in doubts} == {
        "Fix the file or remove it; the score is computed without it"
    }


def test_a_run_of_assay_s_own_is_refused_with_the_name_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "suite" / "session" / "trial" / "attempt-1" / "logs" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    refused = assay_score(tmp_path / "suite").exception
    assert isinstance(refused, InputError)
    assert f"or log files: it belongs to an Assay run, like {log}" in str(refused)


def test_a_path_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from assay.cli import main; main()", "score", str(tmp_path / "absent")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr.endswith("absent: no such file or folder\n")
    assert "Traceback" not in done.stderr


def test_a_round_that_is_none_is_refused() -> None:
    result = assay_score(".", "--round", "3.1")
    assert result.exit_code == 2
    assert "'3.1' is not a round; write it as v3.1" in result.output


def test_the_help_shows_each_example_on_its_own_line() -> None:
    assert "\n    assay score my-logs --round v4.0\n" in assay_score("--help").output


DGX1 = Path("v0.6", "NVIDIA", "dgx1_ngc19.05_pytorch")


def stated(*arguments: str) -> Result:
    return CliRunner().invoke(command_of(ScoreQuestion), list(arguments), catch_exceptions=False)


@pytest.mark.mlperf_logs
@pytest.mark.parametrize(
    ("folder", "published", "follows"),
    [
        (DGX1 / "ssd", "22.36", True),
        (DGX1 / "ssd", "22.4", True),
        (DGX1 / "ssd", "22.30", False),
        (Path("v3.1", "Supermicro-RedHat", "AS-4125GS-TNRT-RedHat-OpenShift", "resnet"), "21.135", True),
        (Path("v3.1", "Supermicro-RedHat", "AS-4125GS-TNRT-RedHat-OpenShift", "resnet"), "20.933", False),
        (DGX1 / "maskrcnn", "207.48", False),
    ],
)
def test_a_stated_score_is_held_against_the_one_of_the_real_logs(
    mlperf_logs: Path, folder: Path, published: str, follows: bool
) -> None:
    shown = stated(str(mlperf_logs / folder), "--stated", published, "--json")
    [found] = json.loads(shown.output)["sets"]
    codes = [doubt["code"] for doubt in found["doubts"]]
    assert ("score-contradicts" in codes) is not follows
    assert shown.exit_code == (0 if follows else 1)
    assert found["stated_minutes"] == float(published)
    told = "which matches" if follows else "which does not match"
    assert told in " ".join(stated(str(mlperf_logs / folder), "--stated", published).output.split())


@pytest.mark.mlperf_logs
def test_a_sheet_states_the_scores_of_several_sets(mlperf_logs: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "published.csv"
    sheet.write_text(
        "system,benchmark,minutes,page\n"
        "dgx1_ngc19.05_pytorch,ssd,22.36,4\n"
        "dgx1_ngc19.05_pytorch,rnn_translator,20.65,4\n"
    )
    shown = stated(str(mlperf_logs / DGX1), "--stated", str(sheet), "--json")
    doubted = {
        found["benchmark"]: [
            doubt["evidence"] for doubt in found["doubts"] if doubt["code"] == "score-contradicts"
        ]
        for found in json.loads(shown.output)["sets"]
    }
    assert [name for name, doubts in doubted.items() if doubts] == ["gnmt"]
    assert doubted["gnmt"] == [
        "gnmt on dgx1_ngc19.05_pytorch, minutes: 20.65 was published, the logs give 20.5534 (+0.47%)"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system,minutes\na,1\n", "no column benchmark"),
        ("", "no column system, benchmark, minutes; the header is empty"),
        ("system,benchmark,minutes\na,ssd,about 20\nb,ssd,\n", "minutes is 'about 20'"),
        ("system,benchmark,minutes\nelsewhere,ssd,20\n", "no row of the sheet is about a set here"),
    ],
)
def test_a_sheet_that_can_not_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    sheet = tmp_path / "published.csv"
    sheet.write_text(text)
    (tmp_path / "result_0.txt").write_text("no log\n")
    with pytest.raises(InputError, match=message):
        command_of(ScoreQuestion).main([str(tmp_path), "--stated", str(sheet)], standalone_mode=False)


def test_one_stated_figure_for_several_sets_is_refused(tmp_path: Path) -> None:
    for name in ("ssd", "resnet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result_0.txt").write_text("no log\n")
    with pytest.raises(InputError, match="one value is given for 2 sets"):
        command_of(ScoreQuestion).main([str(tmp_path), "--stated", "22.36"], standalone_mode=False)
    with pytest.raises(InputError, match="'fast' is neither minutes"):
        command_of(ScoreQuestion).main([str(tmp_path), "--stated", "fast"], standalone_mode=False)

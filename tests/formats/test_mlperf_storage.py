"""Summaries and logs of MLPerf Storage, whole and spoilt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.formats.mlperf_storage import find_summaries, mlperf_storage
from assay.testing.formats import Read, ReaderContract, values

LOG = """[OUTPUT] 2026-09-01T10:00:00 Running DLIO with 8 process(es)
[OUTPUT] ==========================================================
[METRIC] Training Accelerator Utilization [AU] (%): 95.2345 (0.1201)
[METRIC] Training Throughput (samples/second): 171.6601 (0.2100)
[METRIC] Training I/O Throughput (MB/second): 23999.5021 (29.3555)
[METRIC] train_au_meet_expectation: success
"""
ROW = "[METRIC] Training Throughput (samples/second): 171.6601 (0.2100)\n"


def training(**changed: Any) -> dict[str, Any]:
    told = {
        "train_throughput_samples_per_second": [171.6, 171.72],
        "train_au_mean_percentage": 95.25,
        "train_au_meet_expectation": "success",
        "train_throughput_mean_samples_per_second": 171.66,
        "train_io_mean_MB_per_second": 24000.5,
    }
    return {**told, **changed}


CHECKPOINT = {
    "save_checkpoint_io_mean_GB_per_second": 12.5,
    "save_checkpoint_duration_mean_seconds": 8.4,
    "load_checkpoint_io_mean_GB_per_second": 21.0,
    "load_checkpoint_duration_mean_seconds": 5.0,
}


def summary(metric: dict[str, Any] | None = None, **changed: Any) -> str:
    told = {"num_accelerators": 8, "num_hosts": 2, "num_files_train": 1000, "potential_caching": [0, 0]}
    return json.dumps({**told, "metric": training() if metric is None else metric, **changed}, indent=4)


class TestMlperfStorage(ReaderContract):
    tool = "mlperf-storage"
    whole = (summary(), summary(CHECKPOINT), LOG)
    torn = tuple(
        (LOG.replace(ROW, row), LOG.replace(ROW, ""))
        for row in (
            "[METRIC] Training Throughput (samples/second): 171.6601 (0.21\n",
            "[METRIC] Training Throughput (samples/second): 171.\n",
        )
    )
    failed = (
        (
            summary(training(train_throughput_mean_samples_per_second=500.0)),
            "train_throughput_mean_samples_per_second is 500, but its 2 values make 171.66",
        ),
        (
            summary(training(train_au_mean_percentage=50.0)),
            "busy for 50.0 % of the time, below the 70 % of the rules, though DLIO says success",
        ),
        (
            summary(training(train_au_meet_expectation="fail", train_au_mean_percentage=61.02)),
            "the accelerators were busy for 61.0 % of the time, below what the rules demand",
        ),
        (summary({}), "no figure"),
        (json.dumps({"train_au_mean_percentage": 1}), "incomplete summary of DLIO: 'metric' is missing"),
    )

    def test_megabytes_are_mebibytes_and_percent_are_shares(self, read: Read) -> None:
        found = read(summary())
        assert values(found, "throughput") == [171.66]
        assert {f.metric: f.unit for f in found.figures} == {
            "throughput": "samples/s",
            "accelerator_utilization": "%",
            "nominal_bandwidth": "MiB/s",
        }
        assert (found.facts["ranks"], found.facts["nodes"], found.facts["utilization_met"]) == (8, 2, True)

    def test_a_share_that_contradicts_the_flag_is_no_result(self, tmp_path: Path) -> None:
        for model, share, flag, said in (
            (
                "unet3d-h100",
                85.0,
                "success",
                "busy for 85.0 % of the time, below the 90 % of the rules, though",
            ),
            ("cosmoflow-a100", 69.0, None, "busy for 69.0 % of the time, below the 70 % of the rules"),
            ("resnet50-h100", 95.0, "fail", "enough by the rules (90 %), but DLIO says that they were not"),
            ("cosmoflow-h100", 71.0, "success", ""),
            ("flux-b200", 10.0, "success", ""),  # the rules have no share for it
        ):
            path = tmp_path / model / "run1" / "summary.json"
            path.parent.mkdir(parents=True)
            changed = {"train_au_mean_percentage": share, "train_au_meet_expectation": flag}
            path.write_text(summary(training(**changed)))
            problems = mlperf_storage(path).problems
            assert [said in problem for problem in problems] == [True] * bool(said)

    def test_a_run_that_memory_may_have_served_says_so(self, read: Read) -> None:
        found = read(summary(potential_caching=[0, 1]))
        assert found.facts["potential_caching"] is True
        assert "came from memory" in found.notes[0]
        assert read(summary()).notes == ()

    def test_what_was_run_is_known_from_the_configuration_or_else_the_folders(self, tmp_path: Path) -> None:
        folder = tmp_path / "Closed" / "Acme" / "results" / "nvme_4" / "unet3d" / "h100" / "run_1"
        (folder / "configs").mkdir(parents=True)
        file = folder / "summary.json"
        file.write_text(summary())
        facts = mlperf_storage(file).facts
        assert (facts["submitter"], facts["system"], facts["model"]) == ("Acme", "nvme_4", "unet3d-h100")
        (folder / "configs" / "overrides.yaml").write_text("- workload=cosmoflow_a100\n- ++workload.x=1\n")
        assert mlperf_storage(file).facts["model"] == "cosmoflow-a100"

    def test_a_checkpoint_of_v3_has_its_size_and_is_not_suspected_of_caching(self, tmp_path: Path) -> None:
        file = tmp_path / "closed/Acme/results/nvme/checkpointing/llama3-70b/20260708_075034/summary.json"
        (file.parent / "dlio_config").mkdir(parents=True)
        (file.parent / "dlio_config" / "overrides.yaml").write_text("- workload=llama3_70b\n")
        metric = {
            "save_checkpoint_io_mean_GB_per_second": 34.5,
            "save_checkpoint_duration_mean_seconds": 26.4,
            "checkpoint_size_GB": 911.25,
        }
        file.write_text(summary(metric, num_files_train=8, potential_caching=[1, 0]))
        found = mlperf_storage(file)
        assert (found.notes, found.problems) == ((), [])
        assert found.facts == {
            "submitter": "Acme",
            "system": "nvme",
            "model": "llama3-70b",
            "ranks": 8,
            "nodes": 2,
            "checkpoint_bytes": 911.25 * 2**30,
        }

    def test_mebibytes_of_v3s_log_are_those_of_older_ones(self, read: Read) -> None:
        (newer,) = values(read(LOG.replace("(MB/second)", "(MiB/second)")), "nominal_bandwidth")
        assert [newer] == values(read(LOG), "nominal_bandwidth")

    def test_summaries_of_a_tree_are_found_but_not_those_of_its_code(self, tmp_path: Path) -> None:
        for place in ("results/a/run1", "results/a/run2", "code/dlio/tests", "code-092bc506/tests"):
            (tmp_path / place).mkdir(parents=True)
            (tmp_path / place / "summary.json").write_text(summary())
        (tmp_path / "results" / "summary.json").write_text('{"another": "program"}')
        found = [str(path.relative_to(tmp_path).parent) for path in find_summaries(tmp_path)]
        assert found == ["results/a/run1", "results/a/run2"]
        assert find_summaries(tmp_path / "results" / "summary.json") == []

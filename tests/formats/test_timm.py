"""Logs of timm's train.py and benchmark.py, whole and spoilt."""

from __future__ import annotations

from pathlib import Path

from assay.testing.formats import Read, ReaderContract, values

OLD = (
    "Train: 9 [1250/1299 ( 96%)]  Loss: 3.821 (3.89)  Time: 0.161s, 6350.47/s  "
    "(0.245s, 4182.58/s)  LR: 1.000e-01  Data: 0.006 (0.011)\n"
)
NEW = (
    "Train: 0 [   0/312 (  0%)]  Loss:  6.957210 (6.9572)  Time: 3.161s,   80.99/s  "
    "(3.161s,   80.99/s)  LR: 1.0e-05  Data: 1.006 (1.006)\n"
)
TEST = (
    "Test: [  48/48]  Time: 0.107 (0.204)  Loss:  0.9104 (1.2117)  Acc@1: 80.1125 ( 77.1290)  "
    "Acc@5: 94.5755 ( 93.1040)\n"
)
BENCHMARK = """Running train benchmark on resnet50 for 40 steps w/ batch size 256.
Train [8/40]. 455.00 samples/sec. 562.637 ms/step.
Train [40/40]. 456.90 samples/sec. 560.297 ms/step.
Train benchmark of resnet50 done. 456.78 samples/sec, 561.10 ms/sample
--result
"""


class TestTimm(ReaderContract):
    tool = "timm"
    whole = (OLD, NEW + OLD + TEST, BENCHMARK)
    torn = (
        (NEW + OLD[:70] + "\n", NEW),
        (NEW + OLD.replace("4182.58", "N/A"), NEW),
        (NEW + OLD.replace("6350.47", "nan"), NEW),
        (NEW + OLD.replace("0.245s", "0.0s"), NEW),
    )
    failed = (
        (OLD.replace("3.821 (3.89)", "nan (nan)"), "the training failed"),
        (BENCHMARK.partition("Train benchmark")[0], "did not finish"),
        (BENCHMARK.partition("Train [")[0] + '    "error": "CUDA out of memory."\n', "CUDA out of memory"),
        (OLD + "Traceback (most recent call last):\n", "traceback"),
        ("", "no line has a figure"),
    )

    def test_lines_of_training_have_the_epochs_rate_and_the_intervals(self, read: Read) -> None:
        found = read(NEW + OLD + TEST)
        assert values(found, "throughput") == [80.99, 4182.58]
        assert values(found, "interval_throughput") == [80.99, 6350.47]
        assert values(found, "loss") == [6.9572, 3.89]
        assert values(found, "top_1_accuracy") == [77.129]
        assert [dict(f.at) for f in found.figures if f.metric == "loss"][1] == {
            "step": 9 * 1299 + 1250,
            "epoch": 9,
        }
        assert (found.problems, found.skipped) == ([], 0)

    def test_the_model_is_read_from_the_log_and_a_log_without_it_fits_any(self, read: Read) -> None:
        log = self.whole[0]
        named = "Model vit_large_patch16_224 created, param count:304326632\n" + log
        assert read(named).facts == {"model": "vit_large_patch16_224"}
        assert read(log).facts == {"operation_unknown": "any model"}

    def test_an_epoch_that_has_just_begun_is_not_the_trainings_rate(self, read: Read) -> None:
        next_epoch = NEW.replace("Train: 0 [   0/312 (  0%)]", "Train: 10 [   0/1299 (  0%)]")
        found = read(OLD + next_epoch)
        assert values(found, "throughput") == [4182.58]
        assert values(found, "interval_throughput") == [6350.47, 80.99]
        assert found.notes[-1].startswith("line 2: epoch 10 did not get as far")
        assert found.problems == []

    def test_a_training_that_starts_again_in_one_log_is_several_runs(self, foreign_logs: Path) -> None:
        found = self.figures_in(foreign_logs / "failing" / "timm-restarted-in-one-log.txt")
        assert found.problems == [
            "line 5: step 0 after step 100: the file holds several runs; put each run in its own file"
        ]

    def test_the_benchmarks_last_line_has_rate_and_step_time(self, read: Read) -> None:
        found = read(BENCHMARK)
        assert {f.metric: (f.value, f.unit) for f in found.figures} == {
            "throughput": (456.78, "samples/s"),
            "step_time": (561.10, "ms"),
        }
        assert found.figures[0].labels == {"phase": "train", "model": "resnet50"}

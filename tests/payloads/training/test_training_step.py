"""The step, the input and the caches that all training programs share, in this process."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
Loader = Callable[[str], Any]


@pytest.fixture
def payload() -> Loader:
    """Loader of a part of the programs, as the one rank of a job."""
    pytest.importorskip("torch")
    return importlib.import_module


@pytest.fixture
def rank(payload: Loader) -> Any:
    alone = payload("assay_payloads.measuring.rank").Rank()
    alone.device = payload("torch").device("cpu")
    return alone


def line_benchmark(payload: Loader, rank: Any, *options: str) -> Any:
    """A straight line is fitted; the loss is a mean over as many terms as a batch has of weight."""
    torch, training = payload("torch"), payload("assay_payloads.training.training")
    benchmark = payload("assay_payloads.training.benchmark")

    class Line(benchmark.TrainingBenchmark):  # type: ignore[misc]
        name = "line"

        def model(self) -> Any:
            return torch.nn.Linear(1, 1)

        def optimizer(self, model: Any) -> Any:
            return torch.optim.SGD(model.parameters(), lr=1.0)

        def weight(self, batch: Any) -> Any:
            return batch["terms"].sum()

        def loss(self, model: Any, batch: Any) -> Any:
            errors = (model(batch["x"]) - batch["y"]).flatten() ** 2
            return (errors * batch["terms"]).sum() / batch["terms"].sum()

    return Line(rank, training.arguments("", batch_size=4, learning_rate=0.1).parse_args(options))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_micro_batches_of_unequal_weight_give_the_gradient_of_the_whole(
    payload: Loader, rank: Any, precision: str
) -> None:
    torch, feed = payload("torch"), payload("assay_payloads.datasets.feed")
    x, terms = torch.randn(4, 1), torch.tensor([3.0, 1.0, 0.0, 5.0])
    whole = {"x": x, "y": 2 * x + 1, "terms": terms}
    parts = [{key: value[cut] for key, value in whole.items()} for cut in (slice(0, 3), slice(3, 4))]
    losses, weights = [], []
    for micros in ([feed.MicroBatch(whole, 4)], [feed.MicroBatch(part, len(part["x"])) for part in parts]):
        stepper = payload("assay_payloads.training.step").Stepper(
            line_benchmark(payload, rank, f"--precision={precision}")
        )
        losses.append(stepper.take(0, micros, 4.0).item())
        weights.append([p.clone() for p in stepper.module.parameters()])
    tolerance = {"fp32": 1e-6, "bf16": 2e-2, "fp16": 2e-3}[precision]
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)
    for one, other in zip(*weights, strict=True):
        assert other.tolist() == [pytest.approx(row, rel=tolerance) for row in one.tolist()]


def test_a_micro_batch_that_only_keeps_the_others_company_changes_nothing(payload: Loader, rank: Any) -> None:
    torch, feed = payload("torch"), payload("assay_payloads.datasets.feed")
    x = torch.randn(4, 1)
    batch = {"x": x, "y": 2 * x + 1, "terms": torch.ones(4)}
    alone, with_company = (
        payload("assay_payloads.training.step")
        .Stepper(line_benchmark(payload, rank))
        .take(0, micros, 4.0)
        .item()
        for micros in ([feed.MicroBatch(batch, 4)], [feed.MicroBatch(batch, 4), feed.MicroBatch(batch, 0)])
    )
    assert with_company == pytest.approx(alone)


def test_tf32_on_a_cpu_and_graphs_without_a_gpu_are_refused(payload: Loader, rank: Any) -> None:
    with pytest.raises(SystemExit, match="tf32 is a format of NVIDIA GPUs"):
        payload("assay_payloads.training.step").Stepper(line_benchmark(payload, rank, "--precision=tf32"))
    stepper = payload("assay_payloads.training.step").Stepper(line_benchmark(payload, rank))
    with pytest.raises(SystemExit, match="--cuda-graphs needs an NVIDIA GPU; the device is cpu"):
        stepper.record([], 1.0)


def test_a_sample_that_is_random_is_the_same_whoever_reads_it(payload: Loader) -> None:
    torch, feed = payload("torch"), payload("assay_payloads.datasets.feed")

    class Chance:
        def __getitem__(self, index: int) -> float:
            return float(torch.rand(()))

    torch.manual_seed(5)
    drawn = [feed.SeededDataset(Chance(), 1)[i] for i in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert feed.SeededDataset(Chance(), 2)[0] != drawn[0]
    after = torch.rand(())
    torch.manual_seed(5)
    assert after == torch.rand(()), "the rank's own random numbers are untouched"


def test_caches_are_cleared_or_the_run_ends(
    payload: Loader, rank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, switch = payload("assay_payloads.datasets.feed"), tmp_path / "drop_caches"
    monkeypatch.setattr(feed, "DROP_CACHES", switch)
    feed.clear_caches(rank)
    assert switch.read_text() == "3"
    monkeypatch.setattr(feed, "DROP_CACHES", tmp_path / "absent" / "drop_caches")
    with pytest.raises(SystemExit, match="which failed on some node: it needs root there"):
        feed.clear_caches(rank)


def test_a_batch_moves_whatever_holds_it_with_its_channels_last(payload: Loader) -> None:
    torch, feed = payload("torch"), payload("assay_payloads.datasets.feed")
    batch = {"images": torch.zeros(2, 3, 4, 4), "more": [torch.zeros(2), "name"], "pair": (1, torch.ones(1))}
    moved = feed.moved(batch, torch.device("cpu"), channels_last=True)
    assert moved["images"].is_contiguous(memory_format=torch.channels_last)
    assert moved["more"][1] == "name"
    assert isinstance(moved["pair"], tuple)
    assert feed.samples_in(batch) == 2


def test_options_that_no_run_can_be_made_of_are_named(payload: Loader, rank: Any, tmp_path: Path) -> None:
    training = payload("assay_payloads.training.training")

    def refused(*options: str) -> str:
        with pytest.raises(SystemExit) as error:
            training._check(rank, training.arguments("").parse_args(options))
        return str(error.value)

    assert "--mode real reads a data set: name its directory with --data" in refused("--mode=real")
    absent = tmp_path / "absent"
    assert f"--data {absent} is not a directory" in refused("--mode=real", f"--data={absent}")
    assert "--window must be at least 1" in refused("--window=0")
    assert "--learning-rate" in refused("--learning-rate=0")
    assert "data-only has none" in refused("--mode=data-only", f"--data={tmp_path}", "--profile=2")


def test_a_loss_that_is_not_finite_ends_the_run(payload: Loader, rank: Any) -> None:
    torch, loops = payload("torch"), payload("assay_payloads.training.loops")
    assert loops.mean_losses(rank, [torch.tensor(1.0), torch.tensor(2.0)]) == [1.0, 2.0]
    for broken in (float("nan"), float("inf")):
        said = f"loss is {broken}, not finite on some rank: .* diverged"
        with pytest.raises(loops.DivergedError, match=said):
            loops.mean_losses(rank, [torch.tensor(1.0), torch.tensor(broken)])


def test_failures_become_words(
    payload: Loader, rank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, feed, training = (
        payload("torch"),
        payload("assay_payloads.datasets.feed"),
        payload("assay_payloads.training.training"),
    )
    options = training.arguments("").parse_args(["--batch-size=64"])

    def said(raising: Callable[[], Any]) -> str:
        with pytest.raises(SystemExit) as error, training.failures(rank, options):
            raising()
        return str(error.value)

    def unreadable() -> None:
        class Folder:
            def __getitem__(self, index: int) -> bytes:
                return (tmp_path / "7.jpg").read_bytes()

            def location(self, index: int) -> str:
                return f"image {index}"

        feed.SeededDataset(Folder(), 1)[7]

    def without_memory() -> None:
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    for lacking in (lambda: torch.empty(10**15), without_memory):
        words = said(lacking)
        assert "out of memory on cpu with --batch-size 64: a smaller --batch-size with " in words
        assert "--global-batch-size 64 trains the same" in words
    assert "image 7 can't be read: FileNotFoundError" in said(unreadable)
    assert f"{tmp_path / 'list.json'}: No such file" in said((tmp_path / "list.json").read_bytes)
    with pytest.raises(RuntimeError, match="a mistake of ours"), training.failures(rank, options):
        raise RuntimeError("a mistake of ours")
    monkeypatch.delattr(torch, "OutOfMemoryError")  # torch before 2.5 has it in torch.cuda only
    with pytest.raises(RuntimeError, match="a mistake of ours"), training.failures(rank, options):
        raise RuntimeError("a mistake of ours")


def test_a_profile_keeps_a_trace_and_names_the_longest_operators(
    payload: Loader,
    rank: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch, operators = payload("torch"), payload("assay_payloads.training.loops")
    monkeypatch.chdir(tmp_path)
    large, steps = torch.randn(1200, 1200), 2  # a product takes far longer than a wait for a CPU
    profile = operators.Profile(rank, steps)
    for _ in range(operators.SKIPPED + steps + 1):
        large @ large + large
        profile.step()
    profile.end()
    lines = [
        json.loads(line.partition(" ")[2]) for line in capsys.readouterr().out.splitlines() if "{" in line
    ]
    spent = {
        line["metadata"]["labels"]["operator"]: line["value"]
        for line in lines
        if line["key"] == "operator_time"
    }
    assert next(iter(spent)) == "aten::mm"
    assert spent["aten::mm"] > spent["aten::add"] > 0
    with gzip.open(tmp_path / operators.TRACE) as trace:
        named = [event.get("name") for event in json.load(trace)["traceEvents"]]
    assert named.count("aten::mm") == steps

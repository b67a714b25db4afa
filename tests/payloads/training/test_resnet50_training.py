"""ResNet-50: the training contract on three classes of small images, and what is the image reader's own."""

from __future__ import annotations

import importlib
import io
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.formats.mlperf import training_run
from assay.workloads import WORKLOADS
from conftest import long_but
from training_contract import TrainingContract, findings, run_by_command

COLOURS = {"blue": (40, 60, 200), "green": (60, 200, 40), "red": (200, 60, 40)}


def make_images(directory: Path, train: int = 12, val: int = 4) -> None:
    """ImageFolder's layout: images of noise around a colour, which is their class."""
    np = pytest.importorskip("numpy")
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    for part, count in (("train", train), ("val", val)):
        for name, colour in COLOURS.items():
            (directory / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.array(colour) + random.integers(-40, 40, (48, 56, 3))
                image.fromarray(pixels.clip(0, 255).astype("uint8")).save(
                    directory / part / name / f"{number}.jpg"
                )


class TestResNet50Training(TrainingContract):
    workload = "resnet50"
    real: ClassVar = {
        "model": "resnet18",
        "image_size": 32,
        "batch_size": 8,
        "max_epochs": 30,
        "learning_rate": 0.005,
        "warmup_epochs": 0,
        "target": 0.9,
    }
    ruleset = "4.0.0"
    make_data = staticmethod(make_images)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "train" / "red" / "3.jpg"
        victim.write_bytes(victim.read_bytes()[:300])
        return str(victim)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.torch
def test_a_training_that_diverges_ends_its_log_as_aborted_and_its_trial_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_images(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    params = dict(TestResNet50Training.real) | {"learning_rate": 1e30, "window": 1, "eval_every": 0.2}
    params |= {"mode": "real", "data": "images", "workers": 0, "division": "closed"}
    run = run_by_command("resnet50", params)
    assert (run["state"], run["measurements"]) == ("failed", [])
    assert re.search(r"loss is (nan|inf), not finite on some rank: training has diverged", run["cause"])
    [log] = tmp_path.glob("runs/once/*/*/attempt-1/logs/rank-0.log")
    assert findings(log, TestResNet50Training.ruleset) == []
    read = training_run(log)
    assert (read.status, read.minutes) == ("aborted", None)
    assert len(read.evaluations) == 1


SMALL = ["--model=resnet18", "--image-size=32", "--batch-size=2", "--device=cpu", "--workers=0"]


@pytest.fixture
def payload() -> Callable[[str], Any]:
    """Loader of a program's part in this process, as the one rank of a job."""
    pytest.importorskip("torchvision")
    return importlib.import_module


@pytest.fixture
def benchmark_of(payload: Callable[[str], Any], tmp_path: Path) -> Callable[..., Any]:
    """Maker of the benchmark on two images of each class, with further options."""
    make_images(tmp_path, train=2, val=1)

    def make(*options: str) -> Any:
        program, rank = (
            payload("assay_payloads.training.resnet50"),
            payload("assay_payloads.measuring.rank").Rank(),
        )
        rank.device = payload("torch").device("cpu")
        given = ["--mode=real", f"--data={tmp_path}", *SMALL, *options]
        return program.ResNet50(rank, program.parser().parse_args(given))

    return make


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--batch-size=4", "--global-batch-size=8"),
            "are fewer than the 8 of one step .4 on each of 1 ranks, 2",
        ),
        (("--workers=4",), "3 batches for each rank, fewer than its 4 workers; use --workers 3"),
        (("--global-batch-size=5",), "5 is not a multiple of batches of 2 on 1 ranks; write a multiple of 2"),
    ],
)
def test_too_few_samples_are_said_before_training_begins(
    payload: Callable[[str], Any], benchmark_of: Callable[..., Any], options: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SystemExit, match=complaint):
        payload("assay_payloads.training.loops").check_data(benchmark_of(*options))


@pytest.mark.torch
def test_classes_that_are_empty_missing_or_others_are_named(
    benchmark_of: Callable[..., Any], tmp_path: Path
) -> None:
    assert benchmark_of().eval_samples() == 3
    (tmp_path / "val" / "red" / "0.jpg").rename(tmp_path / "0.jpg")
    with pytest.raises(SystemExit, match=r"val: .*red"):
        benchmark_of().eval_samples()
    (tmp_path / "val" / "red").rmdir()
    with pytest.raises(SystemExit, match="3 classes and val/ 2"):
        benchmark_of().eval_samples()
    shutil.rmtree(tmp_path / "val")
    with pytest.raises(SystemExit, match=r"val is missing: expected train/ and val/"):
        benchmark_of().eval_samples()


def make_shards(directory: Path, images: Path) -> None:
    """The same images in webdataset's layout, two shards each."""
    for part in ("train", "val"):
        (directory / part).mkdir(parents=True)
        files = sorted((images / part).glob("*/*.jpg"))
        for shard in range(2):
            with tarfile.open(directory / part / f"{shard:06d}.tar", "w") as tar:
                for path in files[shard::2]:
                    key = f"{path.parent.name}-{path.stem}"
                    tar.add(path, f"{key}.jpg")
                    label = tarfile.TarInfo(f"{key}.cls")
                    text = str(sorted(COLOURS).index(path.parent.name)).encode()
                    label.size = len(text)
                    tar.addfile(label, io.BytesIO(text))


@pytest.mark.torch
def test_shards_hold_what_the_directories_hold_and_a_damaged_one_is_named(
    benchmark_of: Callable[..., Any], tmp_path: Path
) -> None:
    make_shards(tmp_path / "shards", tmp_path)
    folder, shards = (benchmark_of(f"--data={path}").eval_set for path in (tmp_path, tmp_path / "shards"))
    assert len(shards) == len(folder) == 3
    alike = {shards.location(i).rpartition(" ")[2]: i for i in range(3)}
    for i in range(3):
        path = Path(folder.location(i))
        image, label = shards[alike[f"{path.parent.name}-{path.stem}"]]
        assert image.equal(folder[i][0])
        assert label == folder[i][1]
        assert folder.stored_bytes(i) == path.stat().st_size
    victim = tmp_path / "shards" / "train" / "000001.tar"
    whole = victim.read_bytes()
    between_members = -(-len(whole.rstrip(b"\0")) // 512) * 512
    for cut, said in ((700, "(can't be read|unpaired)"), (between_members, "can't be read: has no end")):
        victim.write_bytes(whole[:cut])
        with pytest.raises(SystemExit, match=f"{victim}.*{said}"):
            benchmark_of(f"--data={tmp_path / 'shards'}").train_samples()


@pytest.mark.torch
def test_lars_moves_weights_by_their_own_length_and_biases_plainly(payload: Callable[[str], Any]) -> None:
    torch, program = payload("torch"), payload("assay_payloads.training.resnet50")
    weight, bias = (torch.nn.Parameter(torch.tensor(x)) for x in ([[3.0, 4.0]], [1.0]))
    optimiser = program.LARS([weight, bias], lr=2.0, momentum=0.5, weight_decay=0.1)
    for _ in range(2):
        weight.grad, bias.grad = torch.tensor([[0.0, 1.0]]), torch.tensor([1.0])
        before = weight.detach().clone()
        optimiser.step()
    # You et al.: trust = 0.001 |w| / (|g| + 0.1 |w|); the first step is kept by half in the second
    first = 0.001 * 5.0 / (1.0 + 0.1 * 5.0) * (torch.tensor([[0.0, 1.0]]) + 0.1 * torch.tensor([[3.0, 4.0]]))
    length = before.norm()
    second = 0.001 * length / (1.0 + 0.1 * length) * (torch.tensor([[0.0, 1.0]]) + 0.1 * before)
    assert torch.allclose(before, torch.tensor([[3.0, 4.0]]) - 2.0 * first)
    assert torch.allclose(weight.detach(), before - 2.0 * (0.5 * first + second))
    assert bias.item() == pytest.approx(1.0 - 2.0 * (1.0 + 0.5 + 1.0))


@pytest.mark.parametrize(("size", "accumulation"), [(1, 1), (1, 2), (2, 1), (3, 2)])
@pytest.mark.torch
def test_every_sample_is_on_one_rank_once_an_epoch(size: int, accumulation: int) -> None:
    pytest.importorskip("torch")
    steps_of = importlib.import_module("assay_payloads.datasets.feed").steps_of
    for samples in (12, 13, 25, 29):
        ranks = [list(steps_of(range(samples), rank, size, 2, accumulation)) for rank in range(size)]
        micros = [
            m for steps in ranks for step in steps for m in zip(step.indices, step.counted, strict=True)
        ]
        assert sorted(i for indices, counted in micros for i in indices if counted) == list(range(samples))
        assert all(len(indices) == max(1, counted) <= 2 for indices, counted in micros)
        for together in zip(*ranks, strict=True):  # the ranks' exchanges meet
            assert len({len(step.indices) for step in together}) == 1
            assert sum(sum(step.counted) for step in together) == together[0].samples


@pytest.mark.torch
@pytest.mark.parametrize("model", long_but(1, ["resnet50", "resnet18", "resnet34"]))
def test_flops_are_those_that_torch_counts(payload: Callable[[str], Any], model: str) -> None:
    torch, counter = payload("torch"), payload("torch.utils.flop_counter")
    with torch.device("meta"):
        network, image = getattr(payload("torchvision.models"), model)(), torch.empty(1, 3, 224, 224)
    with counter.FlopCounterMode(display=False) as counted:
        network(image)
    workload = WORKLOADS["resnet50"]
    stated = workload.reader.flops(workload.params(model=model))
    assert stated == pytest.approx(3 * counted.get_total_flops(), rel=0.03)

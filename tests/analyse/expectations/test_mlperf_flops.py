"""FLOPs of MLPerf's samples: counted anew from the models, and what imported sets make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import read
from assay.analyse import doubts
from assay.analyse.expectations.shares import Usage, usage
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import group
from assay.analyse.statistics.intervals import one_mean
from assay.cli import assay
from assay.formats.sample_flops import SAMPLE_FLOPS, sample_flops
from assay.targets import era_of
from assay.view.sentences.run_details import describe_usages
from trained_results import imported


def test_every_entry_names_its_source_and_is_of_a_benchmark_of_its_rounds() -> None:
    for entry in SAMPLE_FLOPS:
        assert entry.source
        assert entry.sample
        for major, minor in (entry.first, entry.last):
            assert era_of(entry.benchmark, f"v{major}.{minor}") is not None, entry.benchmark


@pytest.mark.parametrize(
    ("benchmark", "round_"), [("bert", "v3.1"), ("ncf", "v0.5"), ("resnet", "v9.0"), (None, None)]
)
def test_what_is_not_known_has_no_flops(benchmark: str | None, round_: str | None) -> None:
    assert sample_flops(benchmark, round_) is None


def known(benchmark: str, round_: str) -> float:
    found = sample_flops(benchmark, round_)
    assert found is not None
    return found.flops


def forward(program: Callable[[], Any]) -> float:
    """FLOPs that torch counts."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        program()
    return float(counter.get_total_flops())


@pytest.mark.long
@pytest.mark.torch
def test_retinanet_takes_what_its_reference_model_does_less_the_way_back_through_frozen_layers() -> None:
    import torch
    from torchvision.models import resnext50_32x4d
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.models.detection.retinanet import RetinaNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    def whole() -> None:
        top = LastLevelP6P7(256, 256)
        body = _resnet_fpn_extractor(resnext50_32x4d(), 5, returned_layers=[2, 3, 4], extra_blocks=top)
        model = RetinaNet(body, num_classes=264).eval()
        model.head(list(model.backbone(torch.zeros(1, 3, 800, 800)).values()))

    def frozen() -> None:
        body = resnext50_32x4d().eval()
        body.layer1(body.maxpool(body.conv1(torch.zeros(1, 3, 800, 800))))

    assert known("ssd", "v2.1") == pytest.approx(3 * forward(whole) - 2 * forward(frozen), rel=1e-3)
    assert known("retinanet", "v5.1") == known("ssd", "v2.1")


@pytest.mark.long
@pytest.mark.torch
def test_unet3d_takes_what_its_layers_do() -> None:
    import torch
    from torch import nn

    def conv(inner: int, outer: int, stride: int = 1) -> nn.Conv3d:
        return nn.Conv3d(inner, outer, 3, stride=stride, padding=1)

    def program() -> None:
        filters = [32, 64, 128, 256, 320, 320]
        x = conv(32, 32)(conv(1, 32)(torch.zeros(1, 1, 128, 128, 128)))
        passed = [x]
        for above, below in pairwise(filters):
            x = conv(below, below)(conv(above, below, 2)(x))
            passed.append(x)
        passed.pop()
        for below, above in zip(filters[:0:-1], filters[-2::-1], strict=True):
            x = nn.ConvTranspose3d(below, above, 2, stride=2)(x)
            x = conv(above, above)(conv(2 * above, above)(torch.cat([x, passed.pop()], 1)))
        nn.Conv3d(32, 3, 1)(x)

    assert known("unet3d", "v3.1") == pytest.approx(3 * forward(program), rel=1e-3)


def used(tmp_path: Path, logs: Path) -> dict[str, Usage]:
    points = group(imported(tmp_path, "set", logs), read.metrics).values()
    found = usage({"set": points}, read.flops)
    return {one.point.benchmark: one for one in found}


@pytest.mark.mlperf_logs
def test_an_imported_set_has_its_mfu_the_peak_that_was_assumed_and_what_is_normal(
    mlperf_logs: Path, tmp_path: Path
) -> None:
    found = used(tmp_path, mlperf_logs / "v3.1" / "Supermicro-RedHat")
    resnet, unet3d = found["resnet"], found["unet3d"]
    assert resnet.share is not None
    assert resnet.share.value == pytest.approx(24.3e9 * 35_702 / (8 * 756e12), rel=1e-3)
    assert resnet.of == (
        "8 × NVIDIA H100-PCIe-80GB, fp16 756 TFLOP/s each, assumed: the log states no number format"
    )
    assert resnet.normal is not None
    assert resnet.normal.verdict == "within"
    assert unet3d.share is not None
    assert 0.13 < unet3d.share.value < 0.15
    assert unet3d.normal is None, "nothing is published of it here"


@pytest.mark.mlperf_logs
@pytest.mark.parametrize(("times", "code"), [(1.0, None), (0.4, "mfu-far-below"), (1.2, "above-best-known")])
def test_imported_sets_are_doubted_where_their_accelerators_are_known_to_do_otherwise(
    mlperf_logs: Path, tmp_path: Path, times: float, code: str | None
) -> None:
    results = imported(tmp_path, "set", mlperf_logs / "v3.0")
    [found] = [g for key, g in group(results, read.metrics).items() if key.metric == "throughput"]
    changed = replace(found, samples=tuple(s._replace(value=s.value * times) for s in found.samples))
    estimate = one_mean([math.log(sample.value) for sample in changed.samples]).estimate("samples/s")
    raised = {doubt.code for doubt in doubts.of(Case((Side("set", changed),), estimate))}
    assert raised & {"mfu-far-below", "above-best-known"} == ({code} if code else set())


@pytest.mark.mlperf_logs
def test_a_language_model_without_a_stated_number_format_has_no_mfu(
    mlperf_logs: Path, tmp_path: Path
) -> None:
    found = used(tmp_path, mlperf_logs / "v5.1")["llama31_8b"]
    assert (found.share, found.normal) == (None, None)
    assert describe_usages([found]) == [
        "llama31_8b: the peak of AMD Instinct MI355X is unknown for an unstated number format"
    ]


@pytest.mark.mlperf_logs
def test_train_samples_that_count_batches_are_resolved_by_the_known_data_set_and_the_import_says_so(
    mlperf_logs: Path, tmp_path: Path
) -> None:
    logs = mlperf_logs / "v2.1"
    assert set(used(tmp_path / "one", logs)) == {"ssd"}
    shown = CliRunner().invoke(assay, ["import", str(logs), "--runs", str(tmp_path), "--name", "hpe"])
    assert "note: epoch_num counts epochs: ssd in v2.1, according to " in shown.output
    assert "throughput-contradicts" not in shown.output
    assert "counts batches, according to the published logs" in shown.output
    text = CliRunner().invoke(assay, ["show", "hpe", "--runs", str(tmp_path)]).output
    assert "mlperf.accelerator_model_name NVIDIA A100-SXM-80GB" in text
    assert "samples/s" in text

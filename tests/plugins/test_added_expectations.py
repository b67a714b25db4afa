"""What another package knows of hardware: used for shares, published results and doubts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.analyse.expectations.references import matching, of_name
from plugin_packages import STATED, install, used

LAB = f"""{STATED}
from assay.plugins import Accelerator, Expectations, PublishedFigure

KNOWN = Expectations(
    accelerators=(
        Accelerator(("Abacus 9",), {{"bf16": 9e12}}, 1e12, "Abacus data sheet"),
        Accelerator(("NVIDIA H200",), {{"bf16": 1.0}}, 1.0, "a guess"),
    ),
    figures=(
        PublishedFigure("resnet50", "throughput", ("Abacus 9",), ("bf16",), 1, None, 12.5, "one", "our lab"),
    ),
)
"""


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    with used(tmp_path):
        yield tmp_path


def write(place: Path, text: str = LAB) -> None:
    install(place, "assay-lab", {"assay.expectations": {"lab": "lab:KNOWN"}}, {"lab.py": text})


def test_its_accelerators_and_results_are_known_and_replace_none_of_assays(packages: Path) -> None:
    write(packages)
    abacus, ours = of_name("Abacus 9"), of_name("NVIDIA H200")
    assert abacus is not None
    assert abacus.peak_flop_per_s["bf16"] == 9e12
    assert ours is not None
    assert ours.memory_bytes_per_s == 4.8e12
    [figure] = matching("resnet50", "throughput", "Abacus 9", "bf16", 4, None)
    assert (figure.each, figure.source) == (12.5, "our lab")
    assert len(matching("resnet50", "throughput", "NVIDIA H200", "bf16", 1, None)) == 2


@pytest.mark.parametrize("text", ["1 / 0", f"{STATED}KNOWN = ()", LAB.replace("figures=(", "figures=(7,")])
def test_one_that_cannot_be_used_is_named_and_leaves_what_assay_knows(
    packages: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(packages, text)
    assert of_name("Abacus 9") is None
    assert len(matching("resnet50", "throughput", "NVIDIA H200", "bf16", 1, None)) == 2
    [reported] = caplog.messages
    assert reported.startswith("plug-in assay-lab 1.0 (assay.expectations: lab = lab:KNOWN): ")

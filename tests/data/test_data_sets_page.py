"""The page on data sets has a row with its check for every training, and the sizes that it checks."""

from __future__ import annotations

import re

from assay.data.checking import OFFICIAL
from assay.workloads import WORKLOADS
from assay.workloads.training import TrainingParams
from conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "data-sets.md").read_text()
ROWS = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
TRAININGS = [name for name, one in WORKLOADS.items() if issubclass(one.params, TrainingParams)]


def test_every_training_has_a_row_with_its_check() -> None:
    assert len(TRAININGS) >= 10
    assert [name for name in TRAININGS if f"`assay data check {name} DIR`" not in ROWS.get(name, "")] == []
    assert "none needed" in ROWS["digits"]


def test_the_page_and_the_check_agree_on_sizes() -> None:
    assert set(OFFICIAL) < set(TRAININGS)
    for workload, official in OFFICIAL.items():
        for number in official.samples.values():
            assert f"{number:,}" in PAGE, (workload, number)

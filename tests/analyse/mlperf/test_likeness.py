"""Like for like: what differs between two trainings, and which claim still stands."""

from __future__ import annotations

from typing import Any

import pytest

from assay.analyse.mlperf.likeness import Likeness, likeness
from assay.records import Result
from trained_results import trained


def held(b: dict[str, Any], a: dict[str, Any] | None = None, unit: Any = "epochs") -> Likeness:
    def side(system: str, options: dict[str, Any]) -> list[Result]:
        return trained([40, 41, 42], [1, 1.01, 1.02], system=system, **options)

    return likeness(side("here", a or {}), side("there", b), names=("A", "B"), unit=unit)


def test_equal_settings_leave_the_claim_whole_and_seeds_are_no_difference() -> None:
    assert held({}) == Likeness((), "system", "The system factor compares B and A.")


@pytest.mark.parametrize(
    ("change", "name", "kind", "stands"),
    [
        ({"batch": 512}, "global batch size", "work", "limited"),
        ({"facts": {"max_sequence_length": 512}}, "max_sequence_length", "work", "limited"),
        ({"facts": {"opt_name": "sgd"}}, "opt_name", "recipe", "system"),
        ({"facts": {"eval_target": 0.7}}, "quality target", "target", "system"),
        ({"round_": "v0.5"}, "quality target", "target", "system"),
        ({"shape": "2x8"}, "accelerators", "size", "limited"),
        ({"samples": 500}, "training samples", "data", "none"),
        ({"round_": "v3.0"}, "round", "round", "system"),
    ],
)
def test_what_differs_is_found_and_limits_the_claim_as_it_should(
    change: dict[str, Any], name: str, kind: str, stands: str
) -> None:
    found = held(change, a={"facts": {"max_sequence_length": 64}} if "facts" in change else None)
    [difference] = [d for d in found.differences if d.name == name]
    assert (difference.kind, found.stands) == (kind, stands)
    assert difference.a in found.claim
    assert difference.b in found.claim


def test_a_rounds_target_stands_where_the_log_states_none() -> None:
    [target] = [d for d in held({"round_": "v0.5"}).differences if d.kind == "target"]
    assert (target.a, target.b) == (">= 0.759", ">= 0.749")


def test_other_data_takes_no_claim_away_where_lengths_are_samples() -> None:
    assert held({"samples": 500}, unit="samples").stands == "system"


def test_data_counted_in_batches_is_the_same_data() -> None:
    found = held({"samples": 500, "batch": 512})
    assert [d.name for d in found.differences] == ["global batch size"]


def test_what_one_side_does_not_state_is_shown_and_limits_nothing_but_is_told() -> None:
    found = held({"batch": None})
    [difference] = found.differences
    assert (difference.name, difference.b, difference.stated) == ("global batch size", "not stated", False)
    assert found.stands == "system"
    assert "not stated on both sides: global batch size" in found.claim


def test_machines_may_differ_they_are_what_is_compared() -> None:
    found = held(
        {"machine": {"mlperf.accelerator_model_name": "H100", "mlperf.submitter": "X"}},
        a={"machine": {"mlperf.accelerator_model_name": "A100", "mlperf.submitter": "Y"}},
    )
    assert [(d.name, d.kind) for d in found.differences] == [("system accelerator_model_name", "system")]
    assert found.stands == "system"

"""Like for like? What differs between the trainings of two sides, and which claim remains valid.

Settings come from the logs (hyperparameters, batch size, sizes of the data), the quality target from the log
or else from the round's rules, machines from the system's JSON of imported logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from assay.records import Result, Scalar, TrainingRun
from assay.targets import era_of

Kind = Literal["target", "data", "size", "work", "caches", "setting", "round", "recipe", "system"]
Stands = Literal["system", "limited", "none"]
Unit = Literal["epochs", "samples"]
NOT_STATED: Final = "not stated"

# what a difference concerns, by the name of the setting; the first match counts
_KINDS: Final[tuple[tuple[Kind, str], ...]] = (
    ("system", r"system .*|device|backend|torch|python|hostname"),
    ("target", r"quality target"),
    ("data", r"training samples|samples_per_epoch"),
    ("size", r"accelerators|nodes|world_size"),
    ("round", r"round"),
    ("caches", r"caches dropped"),
    ("recipe", r".*(opt_|optimi[sz]er|learning_rate|lars_|momentum|warmup|weight_decay|opt_name).*"),
    (
        "work",
        r".*(batch_size|batch size|gradient_accumulation|sequence_length|input_size|precision|bn_span"
        r"|network|backbone|image_candidates|overlap|evaluation samples|oversampling).*",
    ),
    ("setting", r".*"),
)
_ORDER: Final[tuple[Kind, ...]] = (
    *("target", "data", "size", "work", "caches", "setting"),
    *("round", "recipe", "system"),
)
_LIMITING: Final = frozenset({"size", "work", "caches", "setting"})
_TARGETS: Final = ("target_accuracy", "quality_target", "eval_target", "target")
_TOLD_ELSEWHERE: Final = frozenset(
    {
        *_TARGETS,
        "global_batch_size",
        "train_samples",
        "eval_samples",
        "seed",
        "first_epoch_num",
        "epoch_count",
    }
)
_NO_FACTS: Final = ("submitter", "system_name", "division", "status", "hw_notes", "sw_notes")


@dataclass(frozen=True)
class Difference:
    """A setting that differs between the sides, as text; `not stated` if a side's logs don't state it."""

    name: str
    kind: Kind
    a: str
    b: str

    @property
    def stated(self) -> bool:
        """Whether both sides state it: only then are they known to differ."""
        return NOT_STATED not in (self.a, self.b)


@dataclass(frozen=True)
class Likeness:
    """What differs, and what the system factor still compares.

    stands  `system`: the systems; `limited`: systems with their settings; `none`: nothing
    claim   the same as text
    """

    differences: tuple[Difference, ...]
    stands: Stands
    claim: str


def likeness(a: Sequence[Result], b: Sequence[Result], *, names: tuple[str, str], unit: Unit) -> Likeness:
    """Compare what the trainings of two sides state about themselves.

    unit  in which lengths are compared: an epoch is only as long as its data
    """
    stated_a, stated_b = _stated(a), _stated(b)
    if _counts_batches(a, b):
        for stated in (stated_a, stated_b):
            stated.pop("training samples", None)
            stated.pop("evaluation samples", None)
    differences = [
        Difference(name, _kind(name), stated_a.get(name, NOT_STATED), stated_b.get(name, NOT_STATED))
        for name in {**stated_a, **stated_b}
        if stated_a.get(name) != stated_b.get(name)
    ]
    differences.sort(key=lambda d: (not d.stated, _ORDER.index(d.kind)))
    return Likeness(tuple(differences), *_claim(differences, names, unit))


def _stated(results: Sequence[Result]) -> dict[str, str]:
    """Settings by name; several values if the runs differ among themselves."""
    values: dict[str, dict[Scalar, None]] = {}
    for result in results:
        if result.reading.training is not None:
            for name, value in _settings(result, result.reading.training).items():
                values.setdefault(name, {})[value] = None
    return {
        name: ", ".join(sorted(map(_text, stated_values)))
        for name, stated_values in values.items()
        if len(stated_values) == 1
        or _kind(name) != "setting"  # what changes from run to run is not a setting
    }


def _settings(result: Result, run: TrainingRun) -> dict[str, Scalar]:
    measured = {measurement.metric for measurement in result.reading.measurements}
    facts = {
        "quality target": _target(run),
        "training samples": run.data_set_samples,
        "evaluation samples": run.hyperparameters.get("eval_samples"),
        "global batch size": run.global_batch_size,
        "round": run.round,
        "caches dropped": run.caches_dropped,
        **_size(result),
        **_system(result),
        **{
            name: value
            for name, value in run.hyperparameters.items()
            if name not in _TOLD_ELSEWHERE | measured and not name.startswith("submission_")
        },
    }
    return {name: value for name, value in facts.items() if value is not None}


def _target(run: TrainingRun) -> Scalar:
    """As the log states it, or else from the round's rules."""
    logged = next((run.hyperparameters[name] for name in _TARGETS if name in run.hyperparameters), None)
    if logged is not None:
        return logged
    era = era_of(run.benchmark, run.round)
    return ", ".join(map(str, era.targets)) if era is not None and era.targets else None


def _size(result: Result) -> dict[str, Scalar]:
    """Accelerators and nodes; empty for imported logs whose shape was only assumed."""
    shape = result.run.trial.shape
    if result.run.source is not None and result.provenance is None and shape.ranks == 1:
        return {}
    return {"accelerators": shape.ranks, "nodes": shape.nodes}


def _system(result: Result) -> dict[str, Scalar]:
    """What the system's JSON states about the machine and its software."""
    if result.provenance is None or not result.provenance.nodes:
        return {}
    table = result.provenance.nodes[0]
    named = {
        name.removeprefix("mlperf."): value for name, value in table.items() if name.startswith("mlperf.")
    }
    sizes = ("number_of_nodes", "accelerators_per_node")  # in the shape
    return {f"system {k}": v for k, v in named.items() if k not in _NO_FACTS and k not in sizes}


def _counts_batches(a: Iterable[Result], b: Iterable[Result]) -> bool:
    """Whether train_samples counts batches: it then falls as the batch grows."""
    sizes = []
    for side in (a, b):
        runs = [r.reading.training for r in side if r.reading.training is not None]
        pairs = {(run.train_samples, run.global_batch_size) for run in runs}
        if len(pairs) != 1:
            return False
        samples, batch = pairs.pop()
        if not samples or not batch:
            return False
        sizes.append((samples, batch))
    (samples_a, batch_a), (samples_b, batch_b) = sizes
    return samples_a != samples_b and abs(samples_a * batch_a / (samples_b * batch_b) - 1) < 0.01


def _kind(name: str) -> Kind:
    return next(kind for kind, pattern in _KINDS if re.fullmatch(pattern, name))


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _claim(differences: Sequence[Difference], names: tuple[str, str], unit: Unit) -> tuple[Stands, str]:
    """What the system factor compares, and why, as text."""
    by_kind: dict[Kind, list[Difference]] = {}
    for difference in differences:
        if difference.stated:
            by_kind.setdefault(difference.kind, []).append(difference)
    stands: Stands = "limited" if _LIMITING & by_kind.keys() else "system"
    if "data" in by_kind and unit == "epochs":
        stands = "none"
    consequences = [
        _consequence(kind, of_kind, unit) for kind, of_kind in by_kind.items() if kind != "system"
    ]
    systems = f"{names[1]} and {names[0]}"
    first = {
        "system": f"The system factor compares {systems}",
        "limited": f"Not like for like: the system factor compares {systems} with their settings, and is not "
        "a verdict on the systems alone",
        "none": f"Not like for like: no factor compares {systems}",
    }[stands]
    unknown = [d.name for d in differences if not d.stated and d.kind in ("target", "data", "work")]
    if unknown:
        consequences.append(f"not stated on both sides: {_few(unknown)}")
    return stands, "; ".join([first, *consequences]) + "."


def _consequence(kind: Kind, differences: Sequence[Difference], unit: Unit) -> str:
    named = _few([f"{d.name} {d.a} and {d.b}" for d in differences])
    return f"{named}: {_data_consequence(unit) if kind == 'data' else _CONSEQUENCES[kind]}"


def _data_consequence(unit: Unit) -> str:
    if unit == "epochs":
        return "an epoch is not the same work on both sides"
    return "the lengths are of different data, so the convergence factor is not chance"


_CONSEQUENCES: Final[Mapping[Kind, str]] = {
    "target": "the convergence factor compares two tasks; the system factor does not depend on it",
    "size": "the system factor is a speed-up by size",
    "work": "a sample is not the same work on both sides",
    "caches": "start and first epoch may have been faster without dropping them",
    "setting": "whether it changes the work is unknown",
    "round": "rules and reference code may differ, and software is part of the system factor",
    "recipe": "the convergence factor reflects the recipe as well as chance",
}


def _few(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def files_by_seed(runs: Sequence[TrainingRun]) -> Mapping[Scalar, Sequence[str]]:
    """Seed → the files of the runs that log it."""
    by_seed: dict[Scalar, list[str]] = defaultdict(list)
    for run in runs:
        if (seed := run.hyperparameters.get("seed")) is not None:
            by_seed[seed].append(run.file)
    return by_seed


def shared_seeds(by_seed: Mapping[Scalar, Sequence[str]]) -> str:
    """The first five seeds of several runs, with their files, as text; "" if there are none."""
    shared = [f"{', '.join(files)} have seed {seed}" for seed, files in by_seed.items() if len(files) > 1]
    return "; ".join(shared[:5])

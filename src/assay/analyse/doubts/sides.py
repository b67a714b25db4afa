"""Doubts about whether two sides did the same work with the same software."""

from __future__ import annotations

from functools import lru_cache

from assay.analyse.doubts.case_kinds import MOST_SHOWN, UNSTEADY, CaseDoubtKind, steady_facts
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import probed
from assay.formats.figures import NCCL_BLOCKING, NCCL_SETTINGS, OPERATION_UNKNOWN
from assay.formats.fio import SETTINGS as FIO_SETTINGS
from assay.units import listed

SOFTWARE = (
    "kernel", "os", "gpu.driver", "gpu.cuda", "container", "python.", "package.", "env.",
    "mlperf.framework", "mlperf.operating_system", "mlperf.software", "mlperf.git_commit",
)  # fmt: skip
OF_NODES = ("kernel", "os", "gpu.driver", "gpu.cuda", "python.", "package.")  # the rest is the job's own
NAMED_FIRST = (
    "driver",
    "nccl",
    "rccl",
    "cuda_version",
    "rocm_version",
    "framework",
)  # they affect most results
WORK = (
    "precision", "dtype", "batch_size", "image_size", "channels_last", "data", "deterministic",
    "learning_rate", "target", "quality_target", "train_samples", "eval_samples", "opt_name",
    "tokens_counted_by", "data_format", "dataset", "manifest_digest",
    "model", "compile", "cuda_graphs", "keep_memory", "fused",
    "torch_version", "cuda_version", "cudnn_version", "nccl_version",
    *(f"fio_{name}" for name in FIO_SETTINGS),
    *NCCL_SETTINGS, NCCL_BLOCKING, "nccl_datatype", "nccl_redop",
    "ior_api", "ior_transferSize", "ior_blockSize", "ior_segmentCount",
    "elbencho_threads", "elbencho_file_size", "elbencho_block_size", "elbencho_direct_io",
    "elbencho_io_depth", "protocol", "num_streams", "blksize", "reverse", "bidir",
    "number_of_qps", "connection_type", "tx_depth", "operation",
)  # fmt: skip
WORK_AT_EQUAL_SHAPE = ("global_batch_size", "backend", "device", "threads", "ranks", "elbencho_hosts")
STATED_BY_BOTH = (("precision", "dtype"), ("global_batch_size", "batch_size"))
NOT_SOFTWARE = ("python.executable", "python.packages_digest")
CONTAINER = "container"  # compared between sides with the same engine; otherwise it is the question itself
PLACEMENT = "env.SLURM_"  # where a batch system runs the job; this has no effect in the program
BY_SHAPE = ("env.OMP_NUM_THREADS",)  # set by a launcher from the shape: cores divided by ranks


def different_software(case: Case) -> str | None:
    """Versions or settings that are constant on each side and differ between the sides.

    Variables that systems.yaml sets for a side are what is compared.
    """
    if len(case.sides) < 2:
        return None
    tables = [steady_facts(side.group.results) for side in case.sides]
    if not all(tables):
        return None
    a, b = tables
    differing = sorted(name for name in a.keys() | b.keys() if _software(name) and a.get(name) != b.get(name))
    declared = {
        f"env.{n}" for side in case.sides for s in side.group.samples for n in s.result.run.declared_env
    }
    differing = [name for name in differing if name not in declared]
    differing = [name for name in differing if UNSTEADY not in (a.get(name), b.get(name))]
    if a.get("container") != b.get("container"):
        differing = [name for name in differing if not name.startswith(CONTAINER)]
    if len({side.group.point.shape for side in case.sides}) > 1:
        differing = [name for name in differing if name not in BY_SHAPE]
    if not differing:
        return None
    differing.sort(key=lambda name: not any(word in name for word in NAMED_FIRST))
    shown = ", ".join(f"{name} {_fact(a, name)} and {_fact(b, name)}" for name in differing[:MOST_SHOWN])
    more = f" and {len(differing) - MOST_SHOWN} more" if len(differing) > MOST_SHOWN else ""
    return f"{shown}{more}"


DIFFERENT_SOFTWARE = CaseDoubtKind(
    code="different-software",
    subject="sides",
    severity="biased",
    means=(
        "Kernel, driver, library versions or variables are constant on each side and differ between the "
        "sides; so do images if both sides are containers of one kind. Variables that systems.yaml sets "
        "under `env` are what is compared, and raise no doubt."
    ),
    effect="They may cause the difference, not the system.",
    remedy=(
        "Give both sides the same software: the difference may be the software's and not the system's. "
        "`assay diff A B` shows everything that differs."
    ),
    evidence=different_software,
    looks_at="runs",
)


def changed_software(case: Case) -> str | None:
    """Versions that differ between runs, or between nodes, of one side."""
    parts = []
    for side in case.sides:
        distinct = {id(s.result.provenance): s.result for s in side.group.samples}
        tables = [table for result in distinct.values() for table in probed(result)]
        names = sorted({name for table in tables for name in table if _software(name, OF_NODES)})
        values = {name: sorted({str(table.get(name, "absent")) for table in tables}) for name in names}
        changed = [f"{name} {' and '.join(values[name][:3])}" for name in names if len(values[name]) > 1]
        changed.sort(key=lambda fact: not any(word in fact for word in NAMED_FIRST))
        if changed:
            parts.append(f"{side.name}: {listed(changed)}")
    return "; ".join(parts) or None


CHANGED_SOFTWARE = CaseDoubtKind(
    code="changed-software",
    subject="sides",
    severity="biased",
    means="Kernel, driver or library versions differ between the runs, or between the nodes, of one side.",
    effect="The runs are not repetitions of one thing: their mean and spread mix several stacks.",
    remedy=(
        "Repeat the runs on one stack, or compare the stacks as sides of their own. `assay show` names the "
        "facts that vary."
    ),
    evidence=changed_software,
    looks_at="runs",
)


def different_parameters(case: Case) -> str | None:
    """Parameters that differ between the sides although the points have the same name.

    Those that systems.yaml sets for a side are what is compared.
    """
    if len(case.sides) < 2:
        return None
    a, b = (_parameters(side) for side in case.sides)
    trials = [sample.result.run.trial for side in case.sides for sample in side.group.samples]
    declared = {name for trial in trials for name in trial.declared_params}
    differing = sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n) and n not in declared)
    if not differing:
        return None
    shown = [f"{name} {_either(a, name)} and {_either(b, name)}" for name in differing[:MOST_SHOWN]]
    return ", ".join(shown)


DIFFERENT_PARAMETERS = CaseDoubtKind(
    code="different-parameters",
    subject="sides",
    severity="invalid",
    means="Parameters of the benchmark differ between sides that are compared under one name.",
    effect="The sides may not have done the same work, so their ratio says nothing about the systems.",
    remedy="Run one suite on both sides; with different parameters they may not have done the same work.",
    evidence=different_parameters,
    looks_at="runs",
)


def different_work(case: Case) -> str | None:
    """What the programs reported about their work, if it is constant on each side and differs between them.

    Between two sizes of one sweep, the global batch and the backend differ by design.
    """
    if len(case.sides) < 2:
        return None
    names: tuple[str, ...] = WORK
    if len({side.group.point.shape for side in case.sides}) == 1:
        names = (*names, *WORK_AT_EQUAL_SHAPE)
    a, b = (_stated(side) for side in case.sides)
    parameters = set.intersection(
        *(set(_parameters(side)) for side in case.sides)
    )  # `different-parameters`' own
    differing = [n for n in names if n in a and n in b and a[n] != b[n] and n not in parameters]
    if not differing:
        return None
    shown = [f"{name} {_either(a, name)} and {_either(b, name)}" for name in differing[:MOST_SHOWN]]
    return ", ".join(shown)


DIFFERENT_WORK = CaseDoubtKind(
    code="different-work",
    subject="sides",
    severity="invalid",
    means=(
        "What the programs or logs reported about their work (precision, batch, data, target, library "
        "versions, block size, queue depth, streams) differs between the sides."
    ),
    effect=(
        "A ratio of speeds at different precision, batch, target or block size by itself says nothing about "
        "the system."
    ),
    remedy=(
        "Give both sides the same precision, batch, data, target and access pattern, or compare only what "
        "does not depend on them."
    ),
    evidence=different_work,
    looks_at="runs",
)


def unknown_operation(case: Case) -> str | None:
    """The operations, tests or models that a side's logs allow, where they don't show which was measured."""
    if len(case.sides) < 2:
        return None
    parts = []
    for side in case.sides:
        fitting = {
            str(sample.result.reading.facts[OPERATION_UNKNOWN])
            for sample in side.group.samples
            if OPERATION_UNKNOWN in sample.result.reading.facts
            and not sample.result.run.trial.params.get("benchmark")
        }
        if fitting:
            parts.append(f"{side.name}: {listed(sorted(fitting))}")
    return "; ".join(parts) or None


UNKNOWN_OPERATION = CaseDoubtKind(
    code="unknown-operation",
    subject="sides",
    severity="invalid",
    means=(
        "A log does not state what it measured: its operation (nccl-tests, where bus bandwidth, reduction, "
        "root and checks fit several), its test (perftest) or its model (timm, Horovod, LoadGen …)."
    ),
    effect="The sides may have measured different operations, tests or models, which are not comparable.",
    remedy="Import the logs with `--benchmark` and the name of what they measured, or import whole logs.",
    evidence=unknown_operation,
    looks_at="runs",
)


def stated_once(case: Case) -> str | None:
    """A batch or a number format that only one side states: the other side's may differ."""
    if len(case.sides) < 2:
        return None
    (a, b), (name_a, name_b) = (_stated(side) for side in case.sides), (side.name for side in case.sides)
    parts = []
    for names in STATED_BY_BOTH:
        of_a, of_b = (
            next((f"{n} {_either(stated, n)}" for n in names if n in stated), "") for stated in (a, b)
        )
        if bool(of_a) != bool(of_b):
            parts.append(f"only {name_a if of_a else name_b} states {of_a or of_b}")
    if not parts:
        return None
    return ", ".join(parts)


STATED_ONCE = CaseDoubtKind(
    code="stated-once",
    subject="sides",
    severity="biased",
    means="One side states its batch or its number format and the other does not.",
    effect="If they differ, they may explain the difference between the sides, and nobody can tell.",
    remedy="State it for both sides: a difference in it would explain the result.",
    evidence=stated_once,
    looks_at="runs",
)


def _stated(side: Side) -> dict[str, set[str]]:
    """The values of each fact that this side's programs reported, and of what its training logs state."""
    values_by_fact: dict[str, set[str]] = {}
    for sample in side.group.samples:
        reading = sample.result.reading
        logged = {} if reading.training is None else dict(reading.training.hyperparameters)
        logged.pop("train_samples", None)  # the facts have it if it is the size of a data set
        for name, value in {**logged, **reading.facts}.items():
            if name in WORK or name in WORK_AT_EQUAL_SHAPE:
                values_by_fact.setdefault(name, set()).add(str(value))
    return values_by_fact


@lru_cache(maxsize=4096)  # the same few hundred facts in every run
def _software(name: str, stems: tuple[str, ...] = SOFTWARE) -> bool:
    if name in NOT_SOFTWARE or name.startswith(PLACEMENT):
        return False
    return any(name == stem or name.startswith(stem.rstrip(".") + ".") for stem in stems)


def _fact(table: dict[str, object], name: str) -> object:
    return table.get(name, "absent")


def _parameters(side: Side) -> dict[str, set[str]]:
    """Each parameter's values on this side, as text; swept ones are equal by the choice of the point."""
    distinct = {s.result.run.trial.digest: s.result.run.trial.params for s in side.group.samples}
    values_by_name: dict[str, set[str]] = {}
    for params in distinct.values():
        for name, value in params.items():
            values_by_name.setdefault(name, set()).add(str(value))
    return values_by_name


def _either(parameters: dict[str, set[str]], name: str) -> str:
    return "/".join(sorted(parameters.get(name, {"absent"})))

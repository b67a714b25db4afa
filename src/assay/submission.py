"""A folder in the layout of MLPerf training submissions, composed from result files.

`SUBMITTER/benchmarks/BENCHMARK/`, `SUBMITTER/systems/SYSTEM.json` and
`SUBMITTER/results/SYSTEM/BENCHMARK/result_N.txt`. What a person wrote into the folder is kept: a second call
fills in what is still missing.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from assay import redact, shell
from assay.durable import deliver
from assay.errors import HostError, InputError, Problem
from assay.formats.unpacked import DAMAGED, open_log
from assay.inputs import read_json
from assay.records import Scalar
from assay.units import human


@dataclass(frozen=True)
class SubmissionEntry:
    """The runs of one benchmark on one system.

    files   their logs, raw or compressed, in the order of their numbers
    stated  known fields of the system's description from these runs
    """

    system: str
    benchmark: str
    files: tuple[Path, ...]
    stated: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What a system's JSON now contains, its path, and the fields in which its runs differ."""

    system: str
    path: Path
    fields: Mapping[str, Any]
    differing: Mapping[str, Sequence[Any]]


def compose(entries: Sequence[SubmissionEntry], folder: Path, submitter: str) -> list[Description]:
    """Write a submitter's folder, and return the contents of its systems' JSON files.

    Known secrets, and anything that looks like one, are hidden in the copies of the logs. Raises InputError,
    with all problems and before anything is written, if a log can't be read, or if the folder contains
    other results of the same system and benchmark.
    """
    problems: list[Problem] = []
    copies: dict[Path, bytes] = {}
    for entry in entries:
        place = folder / "results" / entry.system / entry.benchmark
        of_entry = {}
        for number, file in enumerate(entry.files):
            try:
                with open_log(file) as log:
                    text = log.read().decode(errors="replace")
            except (OSError, *DAMAGED) as error:
                problems.append(Problem(str(file), f"can't be read: {error}"))
                continue
            of_entry[place / f"result_{number}.txt"] = redact.text(text).encode()
        problems += _others(place, of_entry)
        copies |= of_entry
    descriptions = _descriptions(entries, folder, submitter, problems)
    if problems:
        raise InputError(problems)
    for path, data in copies.items():
        deliver(path, data, option="-o")
    for entry in entries:
        (folder / "benchmarks" / entry.benchmark).mkdir(parents=True, exist_ok=True)
    for description in descriptions:
        deliver(
            description.path,
            json.dumps(description.fields, indent=2, ensure_ascii=False).encode() + b"\n",
            option="-o",
        )
    return descriptions


def _others(place: Path, ours: Mapping[Path, bytes]) -> list[Problem]:
    """Results in the folder that are not those to be written; other files are left alone."""
    other = [
        path.name
        for path in sorted(place.glob("result_*.txt"))
        if path not in ours or path.read_bytes() != ours[path]
    ]
    if not other:
        return []
    shown = ", ".join((*other[:3], *(["…"] if len(other) > 3 else [])))
    what = f"contains other results ({shown}); remove them, or write elsewhere"
    return [Problem(str(place), what)]


def _descriptions(
    entries: Sequence[SubmissionEntry], folder: Path, submitter: str, problems: list[Problem]
) -> list[Description]:
    descriptions = []
    for system in dict.fromkeys(entry.system for entry in entries):
        path = folder / "systems" / f"{system}.json"
        written: Any = {}
        if path.exists():
            try:
                written = read_json(path)
            except InputError as error:
                problems += error.problems
                continue
        if not isinstance(written, dict):
            problems.append(
                Problem(str(path), "is not a JSON object; fix it, or remove it to have it recreated")
            )
            continue
        known, differing = agreed(entry.stated for entry in entries if entry.system == system)
        known = {"system_name": system, "hw_notes": "", "sw_notes": "", **known, "submitter": submitter}
        fields = {name: known.get(name) for name in FIELDS} | {
            k: v for k, v in written.items() if v is not None
        }
        descriptions.append(
            Description(system, path, fields, {k: v for k, v in differing.items() if fields[k] is None})
        )
    return descriptions


AVAILABLE: Final = MappingProxyType(
    {
        "onprem": "Available on-premise",
        "cloud": "Available cloud",
        "research": "Research, Development, or Internal (RDI)",
        "preview": "Preview",
    }
)
"""A log's `submission_status` → the name in a system's description."""

# Source: the required fields of mlperf-logging's system_desc_checker, and their use in published rounds
FIELDS: Final = MappingProxyType(
    {
        "submitter": "the submitter",
        "division": "closed or open",
        "status": f"one of: {'; '.join(AVAILABLE.values())}",
        "system_name": "the system's name",
        "number_of_nodes": "nodes",
        "host_processors_per_node": "CPUs (sockets) per node",
        "host_processor_model_name": "the manufacturer's name for it",
        "host_processor_core_count": "cores of one CPU",
        "host_processor_vcpu_count": 'virtual CPUs per node; "" on bare metal',
        "host_processor_frequency": 'base and boost, like "2.0 GHz, 3.8 GHz boost"',
        "host_processor_caches": 'like "32 KiB L1d and 2 MiB L2 per core, 105 MiB L3"',
        "host_processor_interconnect": 'between CPUs, like "UPI"; "" with one',
        "host_memory_capacity": 'per node, like "2 TB"',
        "host_storage_type": 'like "NVMe SSD"',
        "host_storage_capacity": 'like "30 TB"',
        "host_networking": 'like "8x 400 Gbit/s InfiniBand, 2x 100 Gbit/s Ethernet"',
        "host_networking_topology": 'like "rail-optimised fat tree"',
        "host_memory_configuration": 'like "32x 64 GB DDR5-4800"',
        "accelerators_per_node": "accelerators per node",
        "accelerator_model_name": "the manufacturer's name for it",
        "accelerator_host_interconnect": 'like "PCIe 5.0 x16"',
        "accelerator_frequency": 'like "1980 MHz"',
        "accelerator_on-chip_memories": 'like "50 MB L2"',
        "accelerator_memory_configuration": 'like "HBM3"',
        "accelerator_memory_capacity": 'of one accelerator, like "80 GB"',
        "accelerator_interconnect": 'between accelerators, like "NVLink 4, 900 GB/s"',
        "accelerator_interconnect_topology": 'like "NVSwitch"',
        "cooling": 'like "air" or "liquid"',
        "hw_notes": 'anything else about the hardware; ""',
        "framework": 'like "PyTorch 2.8.0"',
        "other_software_stack": "drivers and libraries with their versions",
        "operating_system": "its name and version",
        "sw_notes": 'anything else about the software; ""',
    }
)
"""Each required field, in the order of published descriptions, and what to write there."""

_PREFIX: Final = "mlperf."  # of an imported set's facts: the contents of its system's JSON
_STACK: Final = MappingProxyType(
    {
        "gpu.driver": "driver",
        "gpu.cuda": "cuda_of_the_driver",
        "python.torch_cuda": "cuda",
        "python.torch_hip": "rocm",
        "python.version": "python",
        "python.cudnn": "cudnn",
        "python.nccl": "nccl",
        "kernel": "kernel",
        "kubernetes.image": "image",
    }
)


def described(nodes: Sequence[Mapping[str, Scalar]]) -> dict[str, Any]:
    """The fields that can be filled from the tables of a run's nodes, except those in which nodes differ."""
    by_field: dict[str, Any] = {
        "number_of_nodes": _number_of_nodes(nodes),
        "other_software_stack": _stack(nodes),
    }
    for name in FIELDS:
        answers = {_answer(name, node) for node in nodes}
        if len(answers) == 1 and (answer := answers.pop()) is not None:
            by_field[name] = answer
    return {name: by_field[name] for name in FIELDS if by_field.get(name)}


def _number_of_nodes(nodes: Sequence[Mapping[str, Scalar]]) -> str | None:
    machines = [(node.get("host"), node.get("boot_id")) for node in nodes]
    return str(len(set(machines))) if nodes and all(host for host, _ in machines) else None


def _stack(nodes: Sequence[Mapping[str, Scalar]]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for fact, name in _STACK.items():
        values = {node.get(fact) for node in nodes}
        if len(values) == 1 and (value := values.pop()) is not None:
            versions.setdefault(name, str(value))
    return versions


def _answer(field: str, node: Mapping[str, Scalar]) -> str | None:
    stated = node.get(_PREFIX + field)
    if stated is not None:
        return str(stated)
    known = _FROM_PROBE.get(field)
    answer = known(node) if known else None
    return None if answer is None else str(answer)


def _cores_of_one(node: Mapping[str, Scalar]) -> int | None:
    cores, sockets = node.get("cpu.cores"), node.get("cpu.sockets")
    if not isinstance(cores, int) or not isinstance(sockets, int) or not sockets or cores % sockets:
        return None
    return cores // sockets


def _virtual_cpus(node: Mapping[str, Scalar]) -> Scalar | None:
    return node.get("cpu.logical") if node.get("virtualisation") else None


def _bytes_of(fact: str, note: str = "") -> Callable[[Mapping[str, Scalar]], str | None]:
    def size(node: Mapping[str, Scalar]) -> str | None:
        value = node.get(fact)
        return human(float(value), "B") + note if isinstance(value, int) else None

    return size


def _networks(node: Mapping[str, Scalar]) -> str | None:
    speeds: dict[str, int] = {}
    for name, value in node.items():
        if name.startswith("net.") and name.endswith(".bits_per_s") and isinstance(value, int):
            speed = f"{value / 1e9:g} Gbit/s"
            speeds[speed] = speeds.get(speed, 0) + 1
    return ", ".join(f"{count}x {speed}" for speed, count in speeds.items()) or None


def _framework(node: Mapping[str, Scalar]) -> str | None:
    torch = node.get("python.torch")
    return None if torch is None else f"PyTorch {torch}"


_FROM_PROBE: Final[Mapping[str, Callable[[Mapping[str, Scalar]], Scalar | None]]] = {
    "host_processors_per_node": lambda node: node.get("cpu.sockets"),
    "host_processor_model_name": lambda node: node.get("cpu.model"),
    "host_processor_core_count": _cores_of_one,
    "host_processor_vcpu_count": _virtual_cpus,
    "host_memory_capacity": _bytes_of("memory.total_bytes", " as the kernel counts it"),
    "host_networking": _networks,
    "accelerators_per_node": lambda node: node.get("gpu.count"),
    "accelerator_model_name": lambda node: node.get("gpu.0.name"),
    "accelerator_memory_capacity": _bytes_of("gpu.0.memory_bytes"),
    "framework": _framework,
    "operating_system": lambda node: node.get("os"),
}


def agreed(descriptions: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What the descriptions of one system state consistently, and the fields in which they differ."""
    stated: dict[str, list[Any]] = {}
    for description in descriptions:
        for name, value in description.items():
            if value not in (None, "") and value not in stated.setdefault(name, []):
                stated[name].append(value)
    alike = {name: values[0] for name, values in stated.items() if len(values) == 1}
    return alike, {name: values for name, values in stated.items() if len(values) > 1}


def missing(description: Mapping[str, Any]) -> list[str]:
    """Required fields that a description lacks or leaves null; "" is an answer."""
    return [field for field in FIELDS if description.get(field) is None]


TIMEOUT_S: Final = 3600.0
_MODULE: Final = "mlperf_logging"
_SAID: Final = re.compile(r"(ERROR|WARNING) - +(.*)")

_SAID_BY_US: Final = re.compile(
    r"description file checker failed|: \['Missing field"
)  # each field, with its expected value
_REMEDIES: Final = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (
            r"found (?P<n>\d+), expected (?P<m>\d+)",
            "submit exactly {m} runs: `assay submit` includes all it is given",
        ),
        (
            r"Seed checker failed|logs no seed",
            "log each run's `seed` with mllog, a different one for each run",
        ),
        (
            r"RCP Test Failed.*Missing",
            "no reference has this batch size: ask the working group for its convergence",
        ),
        (
            r"RCP Test Failed",
            "too few runs, or fewer samples than the reference needs: check the hyperparameters",
        ),
        (r"1 file does not comply", "one such run is accepted, as the one that counts as slowest"),
        (r"do(es)? not comply", "`assay score RUNS --rules` names the line of each log that breaks a rule"),
        (r"Required .* occurrence", "have the program print the key with mllog, as often as required"),
        (r"not one of|Unknown files|non-conform|do not conform|Skipping benchmark", "rename or remove it"),
    )
)


class CheckersMissingError(HostError):
    """mlperf-logging is not installed where Assay runs."""


@dataclass(frozen=True)
class Finding:
    """A checker's finding, once, however often it was printed.

    error    the package is rejected for it; False: a warning
    remedy   how to fix it; "" if only the text is available
    """

    error: bool
    text: str
    remedy: str


def check(folder: Path, round_: str) -> list[Finding]:
    """The findings of mlperf-logging's package checker for a submitter's folder, with its compliance checks.

    It works on a copy: it writes next to what it reads, and takes a null field for an answer. The
    scaling factors that it computes are kept in the folder. Raises CheckersMissingError, or HostError if
    it ends without a verdict.
    """
    if find_spec(_MODULE) is None:
        raise CheckersMissingError(
            "mlperf-logging is not installed, so its checks were not made: pip install mlperf-logging"
        )
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / folder.name
        shutil.copytree(folder, copy)
        for path in copy.glob("systems/*.json"):
            known = {name: value for name, value in json.loads(path.read_text()).items() if value is not None}
            path.write_text(json.dumps(known))
        for computed in copy.glob("results/*/*/scaling.json"):
            computed.unlink()  # it is rewritten, and an existing one causes a warning
        done = shell.run(
            [sys.executable, "-m", f"{_MODULE}.package_checker", str(copy), "training", f"{round_[1:]}.0"],
            cwd=Path(directory),
            timeout_s=TIMEOUT_S,
        )
        output = f"{done.stdout}\n{done.stderr}"
        if "PACKAGE CHECKER FOUND" not in output:
            raise HostError(f"mlperf-logging's package checker gave up: {output.strip().splitlines()[-1:]}")
        for scaling in copy.glob("results/*/*/scaling.json"):
            shutil.copyfile(scaling, folder / scaling.relative_to(copy))
        return list(dict.fromkeys(_findings(output.replace(f"{copy}/", ""))))


def _findings(output: str) -> Iterator[Finding]:
    for kind, text in _SAID.findall(output):
        if _SAID_BY_US.search(text):
            continue
        remedy = next(
            (_filled(match, template) for pattern, template in _REMEDIES if (match := pattern.search(text))),
            "",
        )
        yield Finding(kind == "ERROR", text, remedy)


def _filled(match: re.Match[str], template: str) -> str:
    return template.format(**match.groupdict())

"""A commented starter suite for this machine, or the schemas of its files for an editor."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import HostError, InputError
from assay.questions.question import Answer, Question, argument, function, option, question
from assay.questions.values import Folder
from assay.registry import imported
from assay.view.blocks import Block, Paragraph

SUITE_FILE = "suite.yaml"
SYSTEMS_FILE = "systems.yaml"
PARTS: Final = "assay.cluster.components:PARTS"  # of a prepared cluster
_NEEDED = "torch"  # what the starter suite's benchmarks import


@question
class Init(Question):
    """Write suite.yaml and systems.yaml to DIRECTORY (created if missing; default: here).

    The suite fits this machine: its shapes and threads follow from the cores or GPUs that Assay may use. It
    compares this machine with itself, which shows the smallest difference that its runs can detect.

    --schema prints the JSON Schema of a file instead, for an editor. Its first line then names it, for
    editors with the YAML language server: `# yaml-language-server: $schema=suite.schema.json`.

    \b
    Examples:
      assay init my-suite
      assay plan my-suite/suite.yaml    what it would run
      assay run my-suite/suite.yaml
      assay init --schema suite > suite.schema.json

    \b
    Exit codes: 0 written; 4 a file already exists and --force is not given; 5 a file can't be written.
    """

    directory: Folder = argument(default=".")
    force: bool = option("Overwrite the two files if they exist.", default=False)
    schema: Literal["suite", "systems", "template"] | None = option(
        "Only print the JSON Schema of suite.yaml, systems.yaml or a template of `assay data submit`.",
        default=None,
        output=True,
    )

    def __post_init__(self) -> None:
        if self.schema is not None and (self.force or Path(self.directory) != Path()):
            raise ValueError("--schema only prints: leave out DIRECTORY and --force")

    def answer(self) -> StarterSuite | FileSchema:
        """The schema, or the files."""
        return StarterSuite(*self.files()) if self.schema is None else FileSchema(schema(self.schema))

    def files(self) -> tuple[Path, Path]:
        """The paths of the suite and its systems, once they are written.

        Raises InputError if one already exists, HostError if it can't be written.
        """
        folder, machine = Path(self.directory), look_here()
        suite, systems = folder / SUITE_FILE, folder / SYSTEMS_FILE
        files = {suite: suite_text(_name(folder), machine), systems: systems_text(machine)}
        _write(folder, files, self.force)
        return suite, systems

    def write(self, answer: StarterSuite | FileSchema) -> Answer | bytes:
        """What is printed: a schema's text is for another program."""
        if isinstance(answer, StarterSuite):
            return answer
        return json.dumps(answer.content, indent=2, ensure_ascii=False).encode() + b"\n"


init = function(Init, Init.files)


def schema(file: Literal["suite", "systems", "template"]) -> dict[str, Any]:
    """The JSON Schema of suite.yaml, systems.yaml or a template of `assay data submit`, for an editor.

    Like `assay init --schema FILE`. Raises InputError for the name of another file.
    """
    from assay.launch import SYSTEM_MODELS
    from assay.suite.schema import suite_schema, systems_schema, template_schema
    from assay.workloads import WORKLOADS

    if file not in ("suite", "systems", "template"):
        raise InputError(f"found {file!r}; expected suite, systems or template")
    if file == "template":
        return template_schema()
    if file == "systems":
        return systems_schema(dict(SYSTEM_MODELS.items()), imported(PARTS))
    models = {name: workload.params for name, workload in WORKLOADS.items()}
    return suite_schema(models, {name: workload.about for name, workload in WORKLOADS.items()})


@dataclass(frozen=True)
class StarterSuite(Answer):
    """The two files that were written."""

    suite: Path
    systems: Path

    def view(self) -> Iterator[Block]:
        """The files, and what to do next."""
        quoted = shlex.quote(str(self.suite))
        lines = [
            f"Wrote {self.suite}",
            f"Wrote {self.systems}",
            "Next:",
            f"  assay plan {quoted}    what it would run",
            f"  assay run {quoted}     run it and show progress",
        ]
        if importlib.util.find_spec(_NEEDED) is None:
            lines += [
                f"{_NEEDED} is not installed in {sys.executable}, and this suite needs it. Install it first:",
                f"  pip install 'cluster-assay[{_NEEDED}]'",
            ]
        return (Paragraph(line, wraps=False) for line in lines)

    def document(self) -> dict[str, Any]:
        """The document `assay.init/1`."""
        files = [str(self.suite), str(self.systems)]
        return {"schema": "assay.init/1", "files": files, "suite": files[0]}


@dataclass(frozen=True)
class FileSchema(Answer):
    """A JSON Schema."""

    content: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The schema itself."""
        return self.content


@dataclass(frozen=True)
class Machine:
    """What a starter suite needs to know.

    cores  that this process may use, by affinity and cgroup
    gpus   that NVIDIA's driver lists
    """

    cores: int
    gpus: int


def look_here() -> Machine:
    """What the probe reports about this machine. Raises HostError if it doesn't finish."""
    import math

    from assay.checks import number
    from assay.launch.local.facts import node_here

    facts = node_here()
    limits = (number(facts, name) for name in ("cpu.allowed", "cpu.quota"))
    cores = min(limit for limit in limits if limit is not None)
    return Machine(cores=max(1, math.floor(cores)), gpus=int(number(facts, "gpu.count") or 0))


def _name(directory: Path) -> str:
    """The suite is named after its directory, as far as that is a valid name."""
    suite_name = re.sub(r"[^A-Za-z0-9._-]+", "-", directory.absolute().name).strip("-._")
    return suite_name[:40] or "starter"


def _write(directory: Path, files: dict[Path, str], force: bool) -> None:
    present = [str(path) for path in files if path.exists()]
    if present and not force:
        raise InputError(f"{' and '.join(present)}: already there; choose another directory, or use --force")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(f"{error.filename or directory}: can't be written: {error.strerror}") from error


def suite_text(name: str, machine: Machine) -> str:
    """suite.yaml for a machine.

    With GPUs, a worker has one process per GPU, and the shapes double the GPUs; without, an accelerator is a
    process on half of the cores, and the second shape has two.
    """
    counts = _ranks(machine)
    if machine.gpus:
        shapes = [f"1x{count}" for count in counts]
        training = "{batch_size: 64, precision: bf16, steps: 100, warmup: 20}"
        compute = "{sizes: [8192], dtypes: [bf16], min_time_s: 2}"
        about = f"one worker with {', '.join(map(str, counts))} of {machine.gpus} GPUs"
    else:
        shapes = [f"{count}x1" for count in counts]
        training = "{batch_size: 4, image_size: 64, steps: 6, warmup: 1, window: 2}"
        compute = "{sizes: [1024], dtypes: [fp32], min_time_s: 0.5}"
        about = (
            f"no GPU, so an accelerator is a process with {_threads(machine)} of the {machine.cores} cores"
        )
    several = [shape for shape in shapes if shape != "1x1"]
    communication = _COMMUNICATION.format(shapes=", ".join(several)) if several else ""
    return _SUITE.format(
        name=name,
        shapes=", ".join(shapes),
        about=about,
        training=training,
        compute=compute,
        communication=communication,
    )


def systems_text(machine: Machine) -> str:
    """systems.yaml with this machine in it twice: the first comparison is between equals."""
    return _SYSTEMS.format(threads=_threads(machine))


def _ranks(machine: Machine) -> list[int]:
    """The shapes, the smallest first."""
    if machine.gpus:
        return [count for count in (1, 2, 4, 8, 16) if count <= machine.gpus]
    return [1, 2][: min(machine.cores, 2)]


def _threads(machine: Machine) -> int:
    """Threads of each rank in every shape: its share of the cores in the largest one."""
    return max(1, machine.cores // _ranks(machine)[-1])


_SUITE = """\
# What to measure. `assay plan` shows the resulting trials, `assay run` runs them.
suite: {name}

# Where: names from systems.yaml, which is next to this file. The others are compared with the baseline.
# These two are the same machine, so that a first run shows which differences can't be distinguished from
# zero: if two equal systems do not come out as equivalent, a difference between unequal ones means little.
systems: [here, here-again]
baseline: here

# Each repeat is a block of everything below, shuffled. Intervals come from repeats: 5 show differences of
# a few percent on a quiet machine, more show smaller ones.
repeats: 5

# Differences below this don't matter to you: within it, two systems are called equivalent.
margin: 5%

# Workers x accelerators per worker.
# Here: {about}.
shapes: [{shapes}]

# A trial that takes longer is ended and counts as failed. A trial that the platform lost (a node, a pod) is
# retried, at most this many times; a program that failed is not.
timeout: 10min
retries: 2

benchmarks:
  training:
    workload: resnet50          # or digits: trains to a target accuracy
    # A list is swept: batch_size: [8, 16] would make two points of this one.
    params: {training}
    # An acceptance test, judged one-sided with the same care:
    # expect: {{throughput: ">= 40 images/s"}}

  compute:
    workload: matmul            # or membw: memory bandwidth
    params: {compute}
{communication}
  # A program of your own, unchanged, with a pattern for each value that it prints:
  # mine:
  #   workload: command
  #   params:
  #     argv: ["{{python}}", train.py]
  #     cwd: .                    # here, next to this file
  #     metrics:
  #       throughput: {{pattern: 'images/sec: (?P<value>[-+.0-9eE]+)', unit: images/s, better: higher}}
"""

_COMMUNICATION = """
  communication:
    workload: allreduce
    # Up to 100 MiB: the gradients of ResNet-50 are 102 MB.
    params: {{payload_bytes: [1024, 1048576, 104857600], min_time_s: 0.3}}
    shapes: [{shapes}]          # a single rank has nobody to talk to
"""

_SYSTEMS = """\
# Where to measure: a name of your choice for each system, how jobs are started there, and its options.
here:
  launcher: local               # processes on this machine
  # Variables for every trial, numbers in quotes. Each process has the same number of threads in every shape.
  # Otherwise, a single process has all cores: a second one adds none, and efficiency is meaningless.
  env: {{OMP_NUM_THREADS: "{threads}"}}
  # python: /path/to/python     # the interpreter of the trials, with torch; default: Assay's own
  # pin_cpus: true              # give each rank its own cores

# The same machine again: replace it with what you want to compare, such as another interpreter.
here-again: {{launcher: local, env: {{OMP_NUM_THREADS: "{threads}"}}}}

# Another way to run on the same machine can also be a system:
# pinned: {{launcher: local, pin_cpus: true, env: {{OMP_NUM_THREADS: "{threads}"}}}}
"""

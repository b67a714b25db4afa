"""Observations shared with others: signed bundles without anything private, and the keys that are trusted."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from assay.analyse.doubts import KINDS
from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, argument, function, option, question
from assay.records import Scalar
from assay.stacks.image import OF_WHEEL, pins
from assay.stacks.stack import Observation, Stack, StackMetric, StackWorkload
from assay.units import counted
from assay.view.blocks import Block, Paragraph
from assay.workloads import WORKLOADS
from assay.workloads.every_run import PEAK_RSS

if TYPE_CHECKING:
    from assay.stacks.bundles import Conflict


@dataclass(frozen=True)
class ExportedBundle(Answer):
    """The result of `export_stacks`.

    key       of the signature, which others have to trust
    shared    observations in it
    withheld  observations that are not, because their workload or hardware may be private
    """

    path: Path
    key: str
    shared: int
    withheld: int

    def view(self) -> Iterator[Block]:
        """The file, what is in it, and what those who import it do first."""
        yield Paragraph(f"{self.path}: {counted(self.shared, 'observation')}, signed by {self.key}")
        if self.withheld:
            what = counted(self.withheld, "observation")
            yield Paragraph(f"Withheld: {what} of workloads or hardware that may be private.")
        yield Paragraph("Those who import it first run, with the key from you and not from the file:")
        yield Paragraph(f"  assay stack trust {self.key}")

    def document(self) -> dict[str, Any]:
        """The file, its key, and what it has."""
        return {"schema": "assay.stack-export/1", **asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class ImportedBundle(Answer):
    """The result of `import_stacks` for one file.

    added      observations that were not known
    conflicts  with what the same party stated before
    """

    path: Path
    key: str
    name: str
    observations: int
    added: int
    conflicts: tuple[Conflict, ...]

    @property
    def exit_code(self) -> int:
        """1 if something contradicts what the same party stated before."""
        return EXIT_WORSE if self.conflicts else EXIT_OK

    def view(self) -> Iterator[Block]:
        """What is new, and each conflict."""
        party = f"{self.name} ({self.key})" if self.name else self.key
        observations = counted(self.observations, "observation")
        yield Paragraph(f"{observations} of {party}, {self.added or 'none'} of them new.")
        for conflict in self.conflicts:
            kept, other = conflict.kept, conflict.other
            lines = (
                f"! conflict in session {kept.session}, stack {kept.stack.digest[:8]}:",
                f"    kept   {[list(value) for value in kept.values]}",
                f"    other  {[list(value) for value in other.values]}",
            )
            yield Paragraph("\n".join(lines))

    def document(self) -> dict[str, Any]:
        """What came in, and each conflict."""
        conflicts = [
            {
                "session": conflict.kept.session,
                "stack": conflict.kept.stack.digest,
                "kept": [list(value) for value in conflict.kept.values],
                "other": [list(value) for value in conflict.other.values],
            }
            for conflict in self.conflicts
        ]
        return {
            "schema": "assay.stack-import/1",
            "key": self.key,
            "name": self.name,
            "observations": self.observations,
            "added": self.added,
            "conflicts": conflicts,
        }


@dataclass(frozen=True)
class TrustedKeys(Answer):
    """The result of `trust_key`: the own key, and key → name of the trusted ones."""

    own: str
    trusted: Mapping[str, str]

    def view(self) -> Iterator[Block]:
        """A line for each key."""
        yield Paragraph(f"own      {self.own}")
        for key, owner in sorted(self.trusted.items()):
            yield Paragraph(f"trusted  {key}  {owner}".rstrip())

    def document(self) -> dict[str, Any]:
        """The keys."""
        return {"schema": "assay.stack-keys/1", "own": self.own, "trusted": dict(self.trusted)}


@question
class ExportStacks(Question):
    """Write what the runs of this directory observed of stacks as a signed bundle.

    Only what is known to be public goes into it: Assay's own workloads, packages on PyPI, versions, figures,
    the day. Hostnames, users, paths, names of suites, the environment and texts of logs stay here. The key
    is made on first use; those who import the bundle have to trust it.

    \b
    Example:
      assay stack export -o observations.json
    """

    path: Reference = option("File to write.", names=("-o", "--output"), metavar="FILE", local=True)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> ExportedBundle:
        """What was written; what others observed is not passed on: they sign for it themselves.

        Raises InputError if there is nothing to share, HostError if the library that signs is missing or the
        file can't be written.
        """
        from assay.durable import deliver
        from assay.stacks.bundles import bundle_of, key_text, own_signer, signed
        from assay.stacks.known import known

        directory = runs_directory(self.runs)
        own = [observation for observation in known(directory).observations if not observation.origin]
        signer = own_signer(directory)
        scrubber = Scrubber(hashlib.sha256(b"assay-left-out" + signer.private_bytes).digest())
        shared = [public for observation in own if (public := scrubber.observation(observation)) is not None]
        if not shared:
            why = f": {len(own)} observations are of workloads or hardware that may be private" if own else ""
            raise InputError(f"{directory}: there is nothing to share{why}")
        deliver(Path(self.path), signed(bundle_of(shared), signer), option="-o")
        return ExportedBundle(
            Path(self.path), key_text(signer.public_key), len(shared), len(own) - len(shared)
        )


def export_stacks(path: str | PathLike[str], *, runs: str | PathLike[str] | None = None) -> ExportedBundle:
    """Write what this directory's runs observed as a signed bundle, like `assay stack export -o FILE`."""
    return ExportStacks(path=path, runs=runs).answer()


@question
class ImportStacks(Question):
    """Take in BUNDLE, which a trusted key signed.

    It is kept unchanged, and counts as long as its key is trusted. If it contradicts what the same party
    stated before, the earlier statement stays and both are shown.

    \b
    Example:
      assay stack trust ed25519:…   --name lab-b
      assay stack import observations.json

    \b
    Exit codes: 0 imported; 1 imported, with conflicts; 4 not a bundle, changed, or of an unknown key.
    """

    path: Reference = argument(metavar="BUNDLE")
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> ImportedBundle:
        """What came in. Raises InputError if it is no bundle of a trusted key; nothing changes then."""
        from assay.durable import make_directory, write_atomic
        from assay.inputs import read_whole
        from assay.stacks import bundles
        from assay.stacks.bundles import read_recorded, trusted_keys
        from assay.stacks.storage import bundle_names, bundles_dir

        directory, source = runs_directory(self.runs), Path(self.path)
        trusted = trusted_keys(directory)
        key, bundle = bundles.opened(source, trusted)
        data = read_whole(source, bundles.LARGEST_BYTES)
        before = [
            observation for name in bundle_names(directory) for observation in read_recorded(directory, name)
        ]
        new = list(bundles.observations(bundle, key))
        known, _ = bundles.merged(before)
        together, conflicts = bundles.merged([*before, *new])
        make_directory(bundles_dir(directory))
        name = f"{key[8:24]}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        write_atomic(bundles_dir(directory) / name, data)
        return ImportedBundle(
            source, key, trusted[key], len(new), len(together) - len(known), tuple(conflicts)
        )


import_stacks = function(ImportStacks, ImportStacks.answer)


@question
class TrustKey(Question):
    """Trust KEY: bundles that it signed can be imported, and count. Without KEY, show the keys.

    Get the key from its owner by another way than the bundle itself.

    \b
    Examples:
      assay stack trust
      assay stack trust ed25519:… --name lab-b
      assay stack trust ed25519:… --remove
    """

    key: str | None = argument(default=None)
    name: str = option("What to call the key's owner.", default="", metavar="TEXT")
    remove: bool = option("Stop trusting the key: its bundles no longer count.", default=False)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> TrustedKeys:
        """The keys. Raises InputError if it is not a key, or is the own one."""
        from assay.stacks.bundles import key_text, own_signer, public_key, trusted_keys, write_trusted_keys

        directory = runs_directory(self.runs)
        own = key_text(own_signer(directory).public_key)
        trusted = dict(trusted_keys(directory))
        key = self.key
        if key is not None:
            public_key(key)
            if key == own:
                raise InputError(f"{key}: this is the own key; its runs are here already")
            if self.remove and key not in trusted:
                raise InputError(f"{key}: it is not trusted")
            if self.remove:
                del trusted[key]
            else:
                trusted[key] = self.name or trusted.get(key, "")
            write_trusted_keys(directory, trusted)
        return TrustedKeys(own, trusted)


trust_key = function(TrustKey, TrustKey.answer)


DAY_S: Final = 86400
LEFT_OUT: Final = "left_out"  # the setting that stands for everything that is left out
_PUBLIC: Final = frozenset(
    {"tensorflow", "jax", "jaxlib", "keras", "tensorflow-cpu", "intel-openmp", "mkl", "pip"}
)
_VERSION: Final = re.compile(
    r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+(cpu|cu\d{2,4}|rocm[\d.]+|xpu))?"
)
_BUILD: Final = re.compile(r"\+(cpu|cu\d{2,4}|rocm[\d.]+|xpu)|\d{1,3}|((many|musl)?linux|any)[\w.]*")
_SYSTEM: Final[Mapping[str, re.Pattern[str]]] = {
    "libc": re.compile(r"glibc [\d.]+"),
    "kernel.architecture": re.compile(r"x86_64|aarch64|ppc64le|s390x"),
    "gpu.driver": re.compile(r"[\d.]+"),
    "gpu.cuda": re.compile(r"[\d.]+"),
    "python.version": re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?"),
    "python.implementation": re.compile(r"cpython|pypy"),
    "python.torch_cuda": re.compile(r"[\d.]+"),
    "python.torch_hip": re.compile(r"[\d.]+"),
    "cpu.microcode": re.compile(r"0x[0-9a-f]+"),
}
# Of these, what follows the version may be anybody's own name.
_BEGINNINGS: Final[Mapping[str, re.Pattern[str]]] = {
    "kernel": re.compile(r"\d+\.\d+(\.\d+)?"),
    "os": re.compile(
        r"(Debian GNU/Linux|Ubuntu|Red Hat Enterprise Linux( CoreOS)?|Fedora( Linux)?|Rocky Linux|AlmaLinux"
        r"|SUSE Linux Enterprise Server|openSUSE Leap|Amazon Linux|Oracle Linux Server|Alpine Linux"
        r"|CentOS( Stream| Linux)?)( v?\d[\d.]*)?"
    ),
}
_SETTINGS: Final = re.compile(
    r"env\.((OMP|MKL|OPENBLAS|BLIS)_NUM_THREADS|OMP_(PROC_BIND|PLACES|WAIT_POLICY|DYNAMIC)|MKL_DYNAMIC"
    r"|OPENBLAS_CORETYPE|KMP_BLOCKTIME|(DNNL|ONEDNN)_(MAX_CPU_ISA|PRIMITIVE_CACHE_CAPACITY)"
    r"|TF_(ENABLE_ONEDNN_OPTS|NUM_INTRAOP_THREADS|NUM_INTEROP_THREADS)|CUDA_(LAUNCH_BLOCKING|MODULE_LOADING)"
    r"|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|MALLOC_ARENA_MAX)"
    r"|kernel\.numa_balancing|memory\.(transparent_)?hugepages|cpu\.(governor|boost|smt)|gpu\.\*\.(ecc|mig|power_limit_w|persistence)"
)
_SETTING: Final = re.compile(
    r"-?\d{1,9}(\.\d{1,6})?|true|false|TRUE|FALSE|True|False|close|spread|master|cores|threads|sockets|active"
    r"|passive|LAZY|EAGER|always|madvise|never|performance|powersave|schedutil|ondemand|default|AVX|AVX2|AVX512_CORE(_\w+)?|SSE41"
)
_MODEL: Final = re.compile(r"[\w ()@.,/+-]{1,80}")
_ERROR: Final = re.compile(r"\b[A-Z][A-Za-z]{2,40}(Error|Exception)\b|SIG[A-Z]{3,5}")
_DIGEST: Final = re.compile(r"[0-9a-f]{16}")
_OWN_PROGRAM: Final = re.compile(r"assay [\w.+]{1,30}")


@dataclass(frozen=True)
class Scrubber:
    """Leaves out what is private; `key` makes digests that only its owner can compare with a guess."""

    key: bytes

    def digest(self, value: Any) -> str:
        """A name for something that others must not learn."""
        text = json.dumps(value, sort_keys=True, default=str).encode()
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()[:16]

    def observation(self, observation: Observation) -> Observation | None:
        """The observation as others may see it; None if its workload or hardware may be private."""
        workload = None if observation.workload is None else public_workload(observation.workload)
        metric = (
            observation.metric
            if observation.metric is None or workload is None
            else public_metric(observation.metric, workload)
        )
        if (observation.workload is None) != (workload is None) or (observation.metric is None) != (
            metric is None
        ):
            return None
        if not all(
            _MODEL.fullmatch(name) for name in (observation.hardware.cpu or "", *observation.hardware.gpus)
        ):
            return None
        error = _ERROR.search(observation.why)
        known = [KINDS[doubt.code] for doubt in observation.doubts if doubt.code in KINDS.built_in]
        return replace(
            observation,
            stack=self.stack(observation.stack),
            workload=workload,
            metric=metric,
            session=self.digest(["session", observation.session]),
            at=float(observation.at // DAY_S * DAY_S),
            doubts=tuple(kind.doubt("as its observer found") for kind in known),
            why="" if observation.failure is None else error[0] if error else observation.failure,
            log="",
        )

    def stack(self, stack: Stack) -> Stack:
        """What others may see of a stack."""
        packages = dict(_packages(stack))
        builds = {name: build for name, build in stack.builds.items() if _is_public_build(name, build, stack)}
        settings: dict[str, Scalar] = dict(_settings(stack))
        private = {
            "packages": {n: v for n, v in stack.packages.items() if packages.get(n) != v},
            "builds": {n: v for n, v in stack.builds.items() if n not in builds},
            "settings": {n: v for n, v in stack.settings.items() if n not in settings},
        }
        if any(private.values()):
            settings[LEFT_OUT] = self.digest(private)
        return Stack(dict(_system(stack)), packages, builds, settings)


def not_for_others(stack: Stack) -> Iterator[str]:
    """The facts and settings that `Scrubber` never leaves in a stack, by their names.

    A setting becomes part of advice and of container files, so a stack of another party has no other ones.
    """
    system, settings = dict(_system(stack)), dict(_settings(stack))
    yield from (name for name, value in stack.system.items() if system.get(name) != value)
    for name, value in stack.settings.items():
        if settings.get(name) != value and not (name == LEFT_OUT and _DIGEST.fullmatch(str(value))):
            yield name


def _system(stack: Stack) -> Iterator[tuple[str, Scalar]]:
    for name, value in stack.system.items():
        text = str(value)
        if name in _SYSTEM and _SYSTEM[name].fullmatch(text):
            yield name, value
        elif name in _BEGINNINGS and (beginning := _BEGINNINGS[name].match(text)):
            yield name, beginning[0]
        elif name == "kubernetes.image_id" and (digest := re.search(r"sha256:[0-9a-f]{64}", text)):
            yield name, digest[0]


def is_public_package(name: str) -> bool:
    """Whether a package is known to be on PyPI, and not somebody's own."""
    return name in pins() or name in _PUBLIC or name.startswith(OF_WHEEL)


def _packages(stack: Stack) -> Iterator[tuple[str, str]]:
    for name, version in stack.packages.items():
        if is_public_package(name) and _VERSION.fullmatch(version):
            yield name, version


def _is_public_build(name: str, build: str, stack: Stack) -> bool:
    public = name in stack.packages and is_public_package(name)
    return public and all(_BUILD.fullmatch(word) for word in build.split())


def _settings(stack: Stack) -> Iterator[tuple[str, Scalar]]:
    for name, value in stack.settings.items():
        if _SETTINGS.fullmatch(name) and _SETTING.fullmatch(str(value)):
            yield name, value


def public_workload(workload: StackWorkload) -> StackWorkload | None:
    """The workload, if it is one of Assay's with parameters that can't contain anybody's text; else None."""
    if workload.workload not in WORKLOADS or not _OWN_PROGRAM.fullmatch(workload.program):
        return None
    allowed = _enumerated(workload.workload)
    if not all(_is_plain(value, allowed.__contains__) for value in workload.parameters.values()):
        return None
    return workload


def public_metric(metric: StackMetric, workload: StackWorkload) -> StackMetric | None:
    """The metric, if the workload declares it and its labels can't contain anybody's text; else None."""
    known = WORKLOADS[workload.workload]
    try:
        params = known.params(**workload.parameters)
    except ValidationError:  # of another version of Assay
        return None
    declared = {known_metric.name for known_metric in (*known.reader.metrics(params), PEAK_RSS)}
    allowed = _enumerated(workload.workload)
    plain = all(_is_plain(value, allowed.__contains__) for value in metric.labels.values())
    return metric if metric.name in declared and plain else None


def _is_plain(value: Any, known: Callable[[str], bool]) -> bool:
    """Whether a value is a number or one of the words that a parameter can have."""
    if isinstance(value, list | tuple):
        return all(_is_plain(item, known) for item in value)
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and known(value))


def _enumerated(workload: str) -> frozenset[str]:
    """Every word that a parameter of the workload may be by its schema."""
    allowed: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            allowed.update(
                word for word in (*node.get("enum", ()), node.get("const")) if isinstance(word, str)
            )
            for item in node.values():
                collect(item)
        elif isinstance(node, list):
            for item in node:
                collect(item)

    collect(WORKLOADS[workload].params.model_json_schema())
    return frozenset(allowed)

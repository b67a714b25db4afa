"""What of an observation may be shared: only what can name no person, site or program."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from assay.analyse.doubts import KINDS
from assay.records import Scalar
from assay.stacks.image import pins
from assay.stacks.stack import OF_WHEEL, Observation, Stack, StackMetric, StackWorkload
from assay.workloads import WORKLOADS
from assay.workloads.workload import PEAK_RSS

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
        workload, metric, hardware = observation.workload, observation.metric, observation.hardware
        if workload is not None and public_workload(workload) is None:
            return None
        if workload is not None and metric is not None and public_metric(metric, workload) is None:
            return None
        if not all(_MODEL.fullmatch(name) for name in (hardware.cpu or "", *hardware.gpus)):
            return None
        error = _ERROR.search(observation.why)
        known = [KINDS[doubt.code] for doubt in observation.doubts if doubt.code in KINDS.built_in]
        return replace(
            observation,
            stack=self.stack(observation.stack),
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

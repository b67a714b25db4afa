"""What the sampler prints, as records (`assay_payloads/sampling/sampler.py` describes its lines)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.errors import InputError

MARK: Final = ":::ASSAY-TELEMETRY "
VERSION: Final = 1
COUNTER: Final = "_total"  # ends the name of a value that counts since some earlier time


@dataclass(frozen=True)
class TelemetryHeader:
    """The first line.

    started_at  time of day, seconds since 1970, to which the times of all samples are added
    period_s    between samples
    node, gpu   names of the values in a sample; [] for GPUs: this node has none
    gpus        index, as far as known `uuid` and `name`; `measures_power` is false if another one measures it
    """

    started_at: float
    period_s: float
    node: tuple[str, ...]
    gpu: tuple[str, ...]
    gpus: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class TelemetrySample:
    """The values of a node, or of one of its GPUs, at one time; one that is unknown is absent.

    at_s  since the start, monotonic
    gpu   its index; None: the node
    """

    at_s: float
    values: Mapping[str, float]
    gpu: int | None = None


@dataclass(frozen=True)
class TelemetryEvent:
    """Something that happened: the code of an Xid, or a note in words."""

    at_s: float
    words: str
    gpu: int | None = None
    xid: int | None = None


@dataclass
class Telemetry:
    """Takes in lines in their order.

    torn  lines that are not whole, or not the sampler's: a kill, a full disk
    """

    header: TelemetryHeader | None = None
    torn: int = 0

    def read(self, lines: Iterable[str]) -> Iterator[TelemetrySample | TelemetryEvent]:
        """What these lines say. Raises InputError for samples of a newer Assay."""
        for line in lines:
            entry = self._line(line)
            if entry is not None:
                yield entry

    def _line(self, line: str) -> TelemetrySample | TelemetryEvent | None:
        if line.startswith(MARK):
            self.header = _header(line)
            self.torn += self.header is None
            return None
        letter, _, rest = line.partition(" ")
        entry = None if self.header is None else _KINDS.get(letter, _nothing)(self.header, rest.split())
        self.torn += entry is None and bool(line.strip())
        return entry


def _header(line: str) -> TelemetryHeader | None:
    try:
        document = json.loads(line.removeprefix(MARK))
        version = document["version"]
        node, gpu = (tuple(map(str, document[name])) for name in ("node", "gpu"))
        gpus = tuple({**gpu_entry, "index": int(gpu_entry["index"])} for gpu_entry in document["gpus"])
        header = TelemetryHeader(float(document["started_at"]), float(document["period_s"]), node, gpu, gpus)
    except (ValueError, KeyError, TypeError):
        return None
    if version != VERSION:
        raise InputError(f"telemetry of version {version}; this Assay reads version {VERSION}: update it")
    return header


def _node(header: TelemetryHeader, fields: list[str]) -> TelemetrySample | None:
    return _sample(header.node, fields)


def _gpu(header: TelemetryHeader, fields: list[str]) -> TelemetrySample | None:
    if len(fields) < 2 or not fields[1].isdecimal():
        return None
    return _sample(header.gpu, [fields[0], *fields[2:]], int(fields[1]))


def _sample(names: tuple[str, ...], fields: list[str], gpu: int | None = None) -> TelemetrySample | None:
    if not fields or fields[-1] != ".":
        return None
    numbers = [_number(word) for word in fields[:-1]]
    if len(numbers) != len(names) + 1 or numbers[0] is None or math.inf in numbers:
        return None
    known = {name: value for name, value in zip(names, numbers[1:], strict=True) if value is not None}
    return TelemetrySample(numbers[0], known, gpu)


def _xid(_header: TelemetryHeader, fields: list[str]) -> TelemetryEvent | None:
    if len(fields) != 4 or fields[3] != "." or not (fields[1].isdecimal() and fields[2].isdecimal()):
        return None
    at_s = _number(fields[0])
    if at_s is None or at_s == math.inf:
        return None
    return TelemetryEvent(at_s, f"Xid {fields[2]}", int(fields[1]), int(fields[2]))


def _note(_header: TelemetryHeader, fields: list[str]) -> TelemetryEvent | None:
    at_s = _number(fields[0]) if len(fields) > 1 else None
    return None if at_s is None or at_s == math.inf else TelemetryEvent(at_s, " ".join(fields[1:]))


def _nothing(_header: TelemetryHeader, _words: list[str]) -> None:
    return None


def _number(word: str) -> float | None:
    """None for an unknown value, infinity for what is no number."""
    if word == "-":
        return None
    try:
        value = float(word)
    except ValueError:
        return math.inf
    return value if math.isfinite(value) else math.inf


_KINDS: Final = {"n": _node, "g": _gpu, "x": _xid, "!": _note}


def rates(before: TelemetrySample, after: TelemetrySample) -> dict[str, float]:
    """Counters as change per second, by name without `_total`; a counter that was reset has none."""
    passed_s = after.at_s - before.at_s
    return {
        name.removesuffix(COUNTER): (value - before.values[name]) / passed_s
        for name, value in after.values.items()
        if name.endswith(COUNTER) and passed_s > 0 and value >= before.values.get(name, math.inf)
    }

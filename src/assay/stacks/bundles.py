"""Observations as a signed file that others can take in: a DSSE envelope around a table of plain data.

The envelope is checked before its content is looked at, and only keys that are trusted count. A bundle is
kept as it arrived, and read when the knowledge is built, so nothing is lost when several are merged.
Source: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.version import InvalidVersion, Version

from assay.analyse.doubts import KINDS
from assay.errors import InputError, Problem
from assay.inputs import json_value, read_whole
from assay.records import from_json, to_compact_json
from assay.stacks.keys import public_key, trusted_keys
from assay.stacks.scrubbing import not_for_others
from assay.stacks.stack import FailureKind, HardwareClass, Observation, Stack, StackMetric, StackWorkload
from assay.stacks.storage import BUNDLE, bundles_dir, failures_dir
from assay.version import __version__

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

SCHEMA: Final = 1
PAYLOAD_TYPE: Final = "application/vnd.assay.stack-bundle+json"
LARGEST_BYTES: Final = 64 << 20
_DAY_S: Final = 86400.0
_MOST_BLOCKS: Final = 1 << 53
_LONGEST: Final = 1000  # characters of a text


@dataclass(frozen=True)
class SharedObservation:
    """An observation that names its stack, hardware and workload by their places in the bundle's tables."""

    stack: int
    hardware: int
    workload: int | None
    metric: StackMetric | None
    session: str
    at: float
    primary: bool = False
    values: tuple[tuple[int, float], ...] = ()
    interleaved: bool = False
    confidence: float = 0.95
    lost_to_others: float = 0.0
    doubts: tuple[str, ...] = ()
    failure: FailureKind | None = None
    why: str = ""


_IN_TABLES: Final = frozenset({"stack", "hardware", "workload", "doubts"})
_SHARED: Final = tuple(field.name for field in fields(SharedObservation) if field.name not in _IN_TABLES)


def _unchanged(observation: Observation | SharedObservation) -> dict[str, Any]:
    """The fields that an observation and its shared form have alike."""
    return {name: getattr(observation, name) for name in _SHARED}


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle."""

    schema: int
    assay_version: str
    stacks: tuple[Stack, ...] = ()
    hardware: tuple[HardwareClass, ...] = ()
    workloads: tuple[StackWorkload, ...] = ()
    observations: tuple[SharedObservation, ...] = field(default_factory=tuple)


def bundle_of(observed: Sequence[Observation]) -> Bundle:
    """The bundle of scrubbed observations."""
    stacks = {observation.stack.digest: observation.stack for observation in observed}
    hardware = {observation.hardware.digest: observation.hardware for observation in observed}
    workloads = {
        observation.workload.digest: observation.workload
        for observation in observed
        if observation.workload is not None
    }
    place = [{digest: index for index, digest in enumerate(table)} for table in (stacks, hardware, workloads)]
    return Bundle(
        SCHEMA,
        __version__,
        tuple(stacks.values()),
        tuple(hardware.values()),
        tuple(workloads.values()),
        tuple(
            SharedObservation(
                stack=place[0][observation.stack.digest],
                hardware=place[1][observation.hardware.digest],
                workload=None if observation.workload is None else place[2][observation.workload.digest],
                doubts=tuple(doubt.code for doubt in observation.doubts),
                **_unchanged(observation),
            )
            for observation in observed
        ),
    )


def signed(bundle: Bundle, signer: CryptoSigner) -> bytes:
    """The envelope, as a file's content."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(to_compact_json(bundle).encode(), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return (json.dumps(envelope.to_dict(), indent=1) + "\n").encode()


def opened(path: Path, trusted: Mapping[str, str]) -> tuple[str, Bundle]:
    """The key that signed a bundle, as written, and the content.

    trusted  the keys that count

    Raises InputError if it is not a bundle, is signed by no trusted key, was changed after it was signed, or
    is from a newer version of Assay.
    """
    where = str(path)
    envelope = _envelope(path, json_value(path, read_whole(path, LARGEST_BYTES)))
    by_id = {key.keyid: text for text in trusted for key in [public_key(text)]}
    signing = [by_id[keyid] for keyid in envelope.signatures if keyid in by_id]
    if not signing:
        ids = ", ".join(keyid[:16] for keyid in envelope.signatures) or "nobody"
        remedy = (
            "get the key from its owner, by another way than this file, and run: assay stack trust ed25519:…"
        )
        raise InputError([Problem(where, f"signed by a key that is not trusted ({ids}): {remedy}")])
    from securesystemslib.exceptions import VerificationError

    try:
        envelope.verify([public_key(text) for text in signing], 1)
    except (VerificationError, ValueError) as error:
        what = "its signature does not match its content: it was changed after it was signed; get it again"
        raise InputError([Problem(where, what)]) from error
    return signing[0], _bundle(where, envelope.payload)


def _envelope(path: Path, plain: Any) -> Any:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError

    try:
        envelope = Envelope.from_dict(plain)
        wrong = envelope.payload_type != PAYLOAD_TYPE
    except (KeyError, TypeError, ValueError, AttributeError, FormatError) as error:
        raise InputError([Problem(str(path), f"not a signed bundle of Assay ({error!r})")]) from error
    if wrong:
        raise InputError([Problem(str(path), f"its payload is not {PAYLOAD_TYPE}")])
    return envelope


def _bundle(where: str, payload: bytes) -> Bundle:
    try:
        plain = json.loads(payload)
        schema = plain["schema"]
        texts = [*_texts(plain)]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        what = "its content is not a bundle; expected a JSON object with `schema`"
        raise InputError([Problem(where, what)]) from error
    if schema != SCHEMA:
        what = f"its form is number {schema!r}, this version of Assay reads {SCHEMA}: update Assay"
        raise InputError([Problem(where, what)])
    try:
        bundle = from_json(Bundle, payload)
    except ValueError as error:
        raise InputError([Problem(where, f"its content is not a bundle: {error}")]) from error
    if odd := next((text for text in texts if not text.isprintable() or len(text) > _LONGEST), None):
        what = f"it has a text that Assay never writes into one: {odd[:40]!r}"
        raise InputError([Problem(where, what)])
    if wrong := _contradiction(bundle):
        raise InputError([Problem(where, f"its content contradicts itself: {wrong}")])
    if foreign := sorted({name for stack in bundle.stacks for name in not_for_others(stack)}):
        names = ", ".join(foreign[:5])
        what = (
            f"its stacks have facts or settings that Assay never shares: {names}; a setting becomes part of "
            "advice. Update Assay if its owner has a newer version"
        )
        raise InputError([Problem(where, what)])
    return bundle


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, dict):
        yield from plain
        plain = [*plain.values()]
    if isinstance(plain, list):
        for item in plain:
            yield from _texts(item)
    elif isinstance(plain, str):
        yield plain


def _contradiction(bundle: Bundle) -> str:
    """What can't be, as text; "" if nothing."""
    for stack in bundle.stacks:
        for name, version in stack.packages.items():
            if not _is_version(version):
                return f"{name[:40]!r} has the version {version[:40]!r}, which is none"
    for seen in bundle.observations:
        indexes = seen.stack, seen.hardware, seen.workload
        tables = bundle.stacks, bundle.hardware, bundle.workloads
        pairs = zip(indexes, tables, strict=True)
        if any(index is not None and not 0 <= index < len(table) for index, table in pairs):
            return "an observation of something that is not in its tables"
        if len({seen.failure is None, bool(seen.values), seen.metric is not None}) > 1:
            return "an observation that is both a figure and a failure, or neither"
        if seen.metric is not None and seen.workload is None:
            return "a figure without a workload"
        if wrong := _impossible(seen):
            return wrong
    return ""


def _impossible(observation: SharedObservation) -> str:
    """What of its numbers can't be, as text; "" if nothing."""
    values = [value for _, value in observation.values]
    if not all(map(math.isfinite, (observation.at, observation.confidence, *values))):
        return "a figure that is not a finite number"
    if not 0.95 <= observation.confidence < 1 or not 0 <= observation.lost_to_others <= 1:
        return "a confidence or a share that can't be"
    if not 0 <= observation.at <= time.time() + _DAY_S:
        return "an observation of a day to come, or before 1970"
    if not all(0 <= block < _MOST_BLOCKS for block, _ in observation.values):
        return "a block that can't be"
    metric = observation.metric
    if metric is not None and not all(_is_possible(value, metric.unit) for value in values):
        return f"a {metric.name} that can't be"
    return ""


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _is_possible(value: float, unit: str) -> bool:
    """A time is above 0, and a rate is not below it."""
    return value > 0 if unit == "s" else value >= 0 or not unit.endswith("/s")


def observations(bundle: Bundle, origin: str) -> Iterator[Observation]:
    """What the bundle's owner observed; its doubts have the words of this version of Assay."""
    for observation in bundle.observations:
        known = [KINDS[code] for code in observation.doubts if code in KINDS]
        yield Observation(
            stack=bundle.stacks[observation.stack],
            hardware=bundle.hardware[observation.hardware],
            workload=None if observation.workload is None else bundle.workloads[observation.workload],
            doubts=tuple(kind.doubt("as its observer found") for kind in known),
            origin=origin,
            **_unchanged(observation),
        )


@dataclass(frozen=True)
class Conflict:
    """Two statements of one party about the same runs that can't both be true."""

    kept: Observation
    other: Observation


def merged(observed: Iterable[Observation]) -> tuple[list[Observation], list[Conflict]]:
    """Each observation once, and the conflicts.

    A later bundle of the same party may have more runs of a session, which then replace the fewer. If two
    statements about one session contradict each other, the first one is kept and both are reported.
    """
    kept: dict[tuple[str, ...], Observation] = {}
    conflicts = []
    for observation in observed:
        key = _identity(observation)
        before = kept.setdefault(key, observation)
        if before is observation:
            continue
        if not observation.failure and abs(before.at - observation.at) > _DAY_S:
            conflicts.append(Conflict(before, observation))
            continue
        if _same(before, observation):
            continue
        if set(before.values) <= set(observation.values) and not observation.failure:
            kept[key] = observation
        elif not set(observation.values) <= set(before.values):
            conflicts.append(Conflict(before, observation))
    return list(kept.values()), conflicts


def _identity(observation: Observation) -> tuple[str, ...]:
    workload = "" if observation.workload is None else observation.workload.digest
    metric = "" if observation.metric is None else to_compact_json(observation.metric)
    place = observation.origin, observation.session, observation.stack.digest, observation.hardware.digest
    return *place, workload, metric, observation.failure or ""


def _same(a: Observation, b: Observation) -> bool:
    return replace(a, doubts=(), at=0.0) == replace(b, doubts=(), at=0.0)


def read_recorded(runs_dir: Path, source: str) -> Iterator[Observation]:
    """The observations of one source; none of a bundle whose key is not trusted any more.

    Raises InputError if its file is damaged.
    """
    _, _, name = source.partition(" ")
    if source.startswith(BUNDLE):
        trusted, path = trusted_keys(runs_dir), bundles_dir(runs_dir) / name
        if any(name.startswith(key[8:24]) for key in trusted):
            key, bundle = opened(path, trusted)
            yield from observations(bundle, key)
        return
    path = failures_dir(runs_dir) / name
    try:
        yield from_json(Observation, read_whole(path))
    except ValueError as error:
        first = str(error).splitlines()[0]
        what = f"not a recorded failure ({first}); remove it, or restore it"
        raise InputError([Problem(str(path), what)]) from error

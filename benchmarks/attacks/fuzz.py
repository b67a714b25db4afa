"""Corrupted suites and training logs: an answer within the limit, and never a traceback."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.launch import PLACES
from attacks.command import Check, assay, write_suite

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 10**30, "", "x" * 100_000, [], {}, [[[[]]]]),
    *({"a": {"b": {}}}, "\0", "é\u202e<script>", "../../etc/passwd", "0x0", "99999999x99999999", "-1x1"),
    *("99999999999999d", "nan%", "-5%", "1e400%", [None], {1: 2}, "{python}", "{seed}", "{", "%s", "$(id)"),
    *("yes", "2026-01-01", ["a"] * 10_000, *PLACES),
)
KEYS = ("zzz", "wokload", "retries", "margin", "expect", "seed", "baseline", "timeout", "shapes", "params")
SUITES = Path(__file__).resolve().parents[2] / "examples"

Place = tuple[Any, ...]  # keys and indices from the top


def fuzz_suites(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """`assay plan` on suites with a changed value, or some changed bytes."""
    check = Check("a corrupted suite or system gives a plan or a clear error")
    write_suite(folder, "print('value 1')")
    suites = [folder / "suite.yaml", *sorted(SUITES.glob("*/suite.yaml"))]
    own = folder / "spoilt"
    own.mkdir()
    for number in range(count):
        source = draw.choice([path for path in suites if path.with_name("systems.yaml").is_file()])
        files = {name: source.with_name(name).read_bytes() for name in ("suite.yaml", "systems.yaml")}
        victim = draw.choice(sorted(files))
        files[victim] = _spoilt_yaml(files[victim], draw)
        for name, data in files.items():
            (own / name).write_bytes(data)
        ended = assay(own, "plan", "suite.yaml")
        kept = folder / f"broken-{number}-{victim}"
        if not ended.is_clean:
            kept.write_bytes(files[victim])
        check.expect(ended.is_clean, f"{kept}: {ended}")
    return [check]


def fuzz_logs(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """`assay score` on a training log with changed lines, values, or bytes."""
    check = Check("a corrupted training log gives a score or a clear error")
    folder.mkdir(parents=True)
    whole = "".join(training_log()).encode()
    spoilers = (_cut_lines, _swap_bytes, _other_value, _other_order, _nested, _not_text)
    for number in range(count):
        spoil = draw.choice(spoilers)
        log = folder / f"result_{number}.txt"
        log.write_bytes(spoil(whole, draw))
        ended = assay(folder, "score", str(log), "--json")
        check.expect(ended.is_clean, f"{log} ({spoil.__name__}): {ended}")
        if ended.is_clean:
            log.unlink()
    return [check]


def training_log(epochs: int = 4) -> Iterator[str]:
    """A small training in MLPerf's form that reaches its target in the last epoch."""
    events: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("POINT_IN_TIME", "submission_benchmark", "resnet", {}),
        ("POINT_IN_TIME", "submission_division", "closed", {}),
        ("POINT_IN_TIME", "global_batch_size", 256, {}),
        ("POINT_IN_TIME", "train_samples", 1024, {}),
        ("INTERVAL_START", "init_start", None, {}),
        ("INTERVAL_END", "init_stop", None, {}),
        ("INTERVAL_START", "run_start", None, {}),
    ]
    for epoch in range(1, epochs + 1):
        at = {"epoch_num": epoch}
        events += [("INTERVAL_START", "epoch_start", None, at), ("INTERVAL_END", "epoch_stop", None, at)]
        events.append(("POINT_IN_TIME", "eval_accuracy", 0.76 * epoch / epochs, at))
    events.append(("INTERVAL_END", "run_stop", None, {"status": "success"}))
    for number, (kind, key, value, metadata) in enumerate(events):
        event = {
            "namespace": "",
            "time_ms": 1_700_000_000_000 + 60_000 * number,
            "event_type": kind,
            "key": key,
        }
        place = {"file": "train.py", "lineno": number, **metadata}
        yield f":::MLLOG {json.dumps(event | {'value': value, 'metadata': place})}\n"


def _spoilt_yaml(text: bytes, draw: random.Random) -> bytes:
    """Changed as data, or as bytes."""
    if draw.random() < 0.4:
        return draw.choice(_TEXTS)(text, draw)
    from ruamel.yaml import YAML

    content = YAML(typ="safe").load(text)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        _change(content, draw)
    return json.dumps(content, default=str).encode()


def _change(content: Any, draw: random.Random) -> None:
    """Another value, one key fewer or more, a value from elsewhere, or a deeply nested value."""
    places = [place for place in _places(content) if place]
    if not places:
        return
    *above, key = draw.choice(places)
    holder = _at(content, tuple(above))
    kind = draw.random()
    if kind < 0.6:
        holder[key] = copy.deepcopy(draw.choice(ODD))
    elif kind < 0.7:
        del holder[key]
    elif kind < 0.8 and isinstance(holder, dict):
        holder[draw.choice(KEYS)] = copy.deepcopy(draw.choice(ODD))
    elif kind < 0.9:
        holder[key] = copy.deepcopy(_at(content, draw.choice(places)))
    else:
        for _ in range(draw.choice([3, 50, 300])):
            holder[key] = [holder[key]]


def _places(content: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield from _places(content[key], (*at, key))


def _at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def _bomb(text: bytes, draw: random.Random) -> bytes:
    """Nine aliases of nine aliases, some levels deep."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, draw.choice([7, 9, 12]))]
    return "\n".join(lines).encode() + b"\n" + text


def _bytes(text: bytes, draw: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(draw.choice([1, 3, 20])):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _double_line(text: bytes, draw: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return b"".join([*lines[: at + 1], *lines[at:]])


_TEXTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _bomb,
    _bytes,
    _double_line,
    lambda text, draw: b"\xef\xbb\xbf" + text,
    lambda text, draw: text.decode().encode("utf-16"),
    lambda text, draw: text.replace(b"  ", b"\t"),
    lambda text, draw: text + b"\nx: " + b"[" * draw.choice([100, 5_000, 100_000]),
    lambda text, draw: text[: draw.randrange(len(text))],
    lambda text, draw: text + b"\nself: &s [*s]\n",
    lambda text, draw: b"!!python/object/apply:os.system ['false']\n",
    lambda text, draw: text + b"\n---\nsuite: second\n",
    lambda text, draw: text + b"\n\0\0",
)


def _cut_lines(log: bytes, draw: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    for _ in range(3):
        at = draw.randrange(len(lines))
        lines[at] = lines[at][: draw.randrange(len(lines[at]))] + b"\n"
    return b"".join(lines)


def _swap_bytes(log: bytes, draw: random.Random) -> bytes:
    data = bytearray(log)
    for _ in range(30):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _other_value(log: bytes, draw: random.Random) -> bytes:
    """A time or a value that no clock or model produces."""
    name = draw.choice([b"time_ms", b"value", b"epoch_num"])
    odd = draw.choice(
        [b"NaN", b"-Infinity", b"-1", b"9" * 5_000, b"1e308", b'"soon"', b"null", b"[]", b"true"]
    )
    found = list(re.finditer(rb'"%s": [^,}]+' % name, log))
    one = draw.choice(found)
    return log[: one.start()] + b'"%s": %s' % (name, odd) + log[one.end() :]


def _other_order(log: bytes, draw: random.Random) -> bytes:
    lines = log.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines[: draw.randrange(1, len(lines))])


def _nested(log: bytes, draw: random.Random) -> bytes:
    deep = b"[" * draw.choice([500, 100_000])
    return log + b':::MLLOG {"key": "eval_accuracy", "value": ' + deep + b"}\n"


def _not_text(log: bytes, draw: random.Random) -> bytes:
    return draw.choice(
        [log.decode().encode("utf-16"), b"\0" * 1000 + log, draw.randbytes(100_000) + log, b""]
    )

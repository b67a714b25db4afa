"""webdataset: shards, tar files of samples; a sample's key is its members' name up to the first dot.

    000017.jpg or .jpeg .webp .png .camera.png …   the image
    000017.png or .seg.png .mask.png .label.png …  its label image, next to an image of another kind
    000017.cls                                     or the class of the whole image: a number or a name
    000017.json                                    scene, camera, cam_tstamp; a class, as `cls` or `label`

Beside the shards, class_list.json has the colors of label images, or classes.txt a name per number.
A shard is never unpacked: members are read by their place. It is untrusted, so a link, a device or a name
that leads out of the shard is refused by name.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from types import MappingProxyType
from typing import IO, Any, Final, NamedTuple

from assay.data.classes import MOST_CLASSES, Classes, class_list, of_names
from assay.data.frames import (
    LARGEST_JSON_BYTES,
    DataLayout,
    Files,
    FoundData,
    FoundFrame,
    Looked,
    ReadFrame,
    check_same_size,
    image_size,
    label_bytes,
    table_of,
    taken_us,
)
from assay.errors import MOST_SHOWN, InputError, Problem
from assay_payloads.datasets.label_images import counts
from assay_payloads.datasets.manifest import ENTRY, inside
from assay_payloads.datasets.places import DataPlace
from assay_payloads.datasets.tar_end import wrong_end

SHARD: Final = ".tar"
IMAGE_KINDS: Final = ("jpg", "jpeg", "webp", "camera.png", "image.png", "img.png", "png")
LABEL_KINDS: Final = ("label.png", "labels.png", "labelids.png", "seg.png", "mask.png", "png")
CLASS_KINDS: Final = ("cls", "json")
LARGEST_CLASS_BYTES: Final = 1000
LARGEST_HEADER_BYTES: Final = 1 << 20  # of a member's long name or attributes


class _Member(NamedTuple):
    """Where a member's bytes are in its shard."""

    name: str
    begin: int
    size: int


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(slots=True)
class _Sample:
    """What a shard has of a sample.

    unusable  why a member that should have stated the class does not; "" if none should have
    """

    members: dict[str, _Member] = field(default_factory=dict)
    class_: str | None = None
    about: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    damage: str = ""
    unusable: str = ""


class _Headers:
    """A shard as tarfile reads it: never more at once than a header may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        """See IO.read. Raises ReadError for more than a header."""
        if not 0 <= size <= LARGEST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header claims {size:,} bytes")
        return self._file.read(size)


def _shards(files: Files) -> list[str]:
    return sorted(
        name for name in files if name.endswith(SHARD) and not name.rpartition("/")[2].startswith(".")
    )


def _has(files: Files) -> bool:
    return bool(_shards(files)) and not any("/label/" in name for name in files)


def _find(place: DataPlace, files: Files, looked: Looked) -> FoundData:
    samples: dict[str, dict[str, _Sample]] = {}
    broken: list[FoundFrame] = []
    members = count(1)
    for shard in _shards(files):
        samples[shard], wrong = _contents(place, shard, files[shard].size, lambda: looked(next(members)))
        changed = files[shard].changed_ns
        for name, why in wrong:
            broken.append(FoundFrame(name, "", _split(shard), "", 0, 0, changed, damage=why))
    classes = _classes(place, files, samples, broken)
    frames, orphans = [*broken], []
    for shard, own in samples.items():
        for sample in own.values():
            frame = _frame(shard, sample, files[shard].changed_ns, classes)
            if frame is not None:
                frames.append(frame)
            else:
                orphans += [
                    f"{shard}{ENTRY}{member.name}"
                    for kind, member in sample.members.items()
                    if kind in IMAGE_KINDS
                ]
    return FoundData(classes, sorted(frames, key=lambda frame: frame.label), sorted(orphans))


def _split(shard: str) -> str:
    return shard.rpartition("/")[0]


def _contents(
    place: DataPlace, shard: str, size: int, looked: Callable[[], None]
) -> tuple[dict[str, _Sample], list[tuple[str, str]]]:
    """A shard's samples by key, and what is wrong in it, each by name.

    looked  is called for each member
    """
    samples: dict[str, _Sample] = {}
    wrong: list[tuple[str, str]] = []
    if ENTRY in shard:
        return samples, [
            (shard, f"has {ENTRY!r} in its name, which separates a shard from a member; rename it")
        ]
    try:
        with place.opened(shard) as file, tarfile.open(fileobj=_Headers(file), mode="r:") as opened:  # type: ignore[call-overload]
            for member in opened:
                looked()
                if member.isdir():
                    continue
                why = _refused(member, size)
                if why:
                    wrong.append((f"{shard}{ENTRY}{member.name}", why))
                else:
                    _take(samples, file, member)
                opened.members = []  # a shard may have millions
            if why := wrong_end(file, opened.offset):  # what is whole before it counts all the same
                wrong.append((shard, why))
    except RecursionError:  # tarfile reads a header within the one before
        wrong.append((shard, "has hundreds of headers in a row that have no member: it is damaged"))
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        wrong.append((shard, f"is not a whole tar file: {error or 'it is cut'}"))
    return samples, wrong


def _refused(member: tarfile.TarInfo, size: int) -> str:
    if member.issym() or member.islnk():
        return "is a link; expected a plain file"
    if not member.isreg() or member.issparse():
        return "is no plain file; expected only those"
    if not inside(member.name):
        return "leads out of the shard; expected a relative name"
    if member.offset_data + member.size > size:
        return f"claims {member.size:,} bytes, more than the shard has: it is cut"
    return ""


def _take(samples: dict[str, _Sample], file: IO[bytes], member: tarfile.TarInfo) -> None:
    folder, _, name = member.name.rpartition("/")
    stem, dot, kind = name.partition(".")
    if not dot or not stem:
        return
    sample = samples.setdefault(f"{folder}/{stem}" if folder else stem, _Sample())
    kind = kind.lower()
    if kind in sample.members:
        sample.damage = f"has two members of kind .{kind}"
    sample.members[kind] = _Member(member.name, member.offset_data, member.size)
    if kind in CLASS_KINDS:
        if member.size > (LARGEST_CLASS_BYTES if kind == "cls" else LARGEST_JSON_BYTES):
            sample.damage = sample.unusable = f"has a .{kind} of {member.size:,} bytes"
            return
        here = file.tell()
        file.seek(member.offset_data)
        text = file.read(member.size)
        file.seek(here)
        if kind == "cls":
            sample.class_ = text.decode("utf-8", "replace").strip()
        else:
            _take_table(sample, text)


def _take_table(sample: _Sample, text: bytes) -> None:
    table = table_of(text)
    if table is None:
        sample.unusable = "has a .json that is not a JSON object"
        return
    sample.about = table
    stated = table.get("cls", table.get("label"))
    if isinstance(stated, str | int) and not isinstance(stated, bool):
        sample.class_ = str(stated) if sample.class_ is None else sample.class_
    elif stated is not None:
        sample.unusable = f"has a .json with the class {str(stated)[:40]}; expected a name or a number"


def _classes(
    place: DataPlace,
    files: Files,
    samples: Mapping[str, Mapping[str, _Sample]],
    broken: Sequence[FoundFrame],
) -> Classes:
    """The classes of all shards. Raises InputError if they can't be known."""
    if "class_list.json" in files:
        return class_list(place, "class_list.json")
    if "classes.txt" in files:
        text = place.read("classes.txt", 0, LARGEST_JSON_BYTES).decode("utf-8", "replace")
        names = tuple(line.strip() for line in text.splitlines() if line.strip())
        return _checked(place, names)
    all_samples = [sample for own in samples.values() for sample in own.values()]
    if any(_kinds(sample)[1] for sample in all_samples):
        raise InputError(
            [
                Problem(
                    place.address,
                    "its shards have label images, but nothing says what their values mean; put "
                    'class_list.json ({"#ff0000": "Car", …}) or classes.txt (a name per line, for 0, 1, …) '
                    "beside the shards",
                )
            ]
        )
    named = {sample.class_ for sample in all_samples if sample.class_}
    damage = chain((Problem(frame.label, frame.damage) for frame in broken), _unusable(samples))
    if not named and (problems := [*islice(damage, MOST_SHOWN)]):
        raise InputError(problems)
    numbers = all(name.isdecimal() for name in named)
    return _checked(place, tuple(sorted(named, key=(lambda name: (int(name), name)) if numbers else None)))


def _unusable(samples: Mapping[str, Mapping[str, _Sample]]) -> Iterator[Problem]:
    """The samples that should have stated a class."""
    for shard, own in samples.items():
        for key, sample in own.items():
            if sample.unusable:
                yield Problem(f"{shard}{ENTRY}{key}", sample.unusable)


def _checked(place: DataPlace, names: Sequence[str]) -> Classes:
    if not names or len(names) > MOST_CLASSES or len(set(names)) != len(names):
        what = f"found {len(names):,} classes in its shards, {len(set(names)):,} of them different"
        raise InputError([Problem(place.address, f"{what}; expected 1 to {MOST_CLASSES:,}, each once")])
    return of_names(tuple(names))


def _kinds(sample: _Sample) -> tuple[str, str]:
    """Which member is the image, and which the label image; "" for none."""
    image = next((kind for kind in IMAGE_KINDS if kind in sample.members), "")
    label = next((kind for kind in LABEL_KINDS if kind in sample.members and kind != image), "")
    return image, label


def _frame(shard: str, sample: _Sample, changed: int, classes: Classes) -> FoundFrame | None:
    """A sample as a frame; None if it has no label."""
    image_kind, label_kind = _kinds(sample)
    damage, number = sample.damage, -1
    if not label_kind and sample.class_ is None:
        if not sample.unusable:
            return None
        damage = damage or sample.unusable
    elif not label_kind:
        number = _number(sample.class_ or "", classes)
        if number < 0:
            damage = (
                damage
                or f"has the class {(sample.class_ or '')[:40]!r}, which is none of the {len(classes.names)}"
            )
    if not image_kind:
        damage = damage or "has no image"
    label = sample.members.get(label_kind) or sample.members.get("cls") or sample.members["json"]
    image = sample.members.get(image_kind, label)
    scene, camera = (str(sample.about.get(name, "")) for name in ("scene", "camera"))
    return FoundFrame(
        f"{shard}{ENTRY}{label.name}",
        f"{shard}{ENTRY}{image.name}" if image_kind else "",
        scene or _split(shard),
        camera,
        label.size,
        image.size,
        changed,
        detail=(shard, label[1:] if label_kind else None, image[1:], number, taken_us(sample.about)),
        damage=damage,
    )


def _number(class_: str, classes: Classes) -> int:
    """The place of a class; -1 if there is none."""
    if class_ in classes.names:
        return classes.names.index(class_)
    return int(class_) if class_.isdecimal() and len(class_) < 6 and int(class_) < len(classes.names) else -1


def _read(place: DataPlace, classes: Classes, frame: FoundFrame) -> ReadFrame:
    shard, label, image, number, taken = frame.detail
    width, height = image_size(place, shard, *image)
    if label is None:
        own = [0] * len(classes.names)
        own[number] = width * height
        return ReadFrame(width, height, own, 0, taken)
    size, pixels = counts(label_bytes(place, shard, *label))
    check_same_size((size.width, size.height), (width, height))
    own, unknown = classes.counted(pixels)
    return ReadFrame(width, height, own, unknown, taken)


WEBDATASET: Final = DataLayout("webdataset", _has, _find, _read)

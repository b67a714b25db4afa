"""A data set in A2D2's layout whose files are any bytes, with a manifest of all frames."""

from __future__ import annotations

import random
from pathlib import Path

from assay.frame_manifest import write_manifest
from assay_payloads.datasets.manifest import ChosenFrame, Manifest, made


def make(root: Path, frames: int, size: int, *, seed: int = 1) -> Manifest:
    """Frames whose label and image each have this many bytes; the manifest is also in `root`.jsonl."""
    chance, chosen = random.Random(seed), []
    for number in range(frames):
        names = [f"s{number % 2}/{kind}/c/{kind}_{number}.png" for kind in ("label", "camera")]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(chance.randbytes(size))
        chosen.append(ChosenFrame(*names, size, size))
    (root / "class_list.json").write_text("{}")
    manifest = made(str(root), "a2d2", f"seed {seed}", chosen)
    write_manifest(root.with_suffix(".jsonl"), manifest)
    return manifest


def contents(place: Path) -> dict[str, bytes]:
    """Every frame's files below a directory, by name."""
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("[!.]*.png")}

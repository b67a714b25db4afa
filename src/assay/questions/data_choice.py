"""Frames chosen by more than a condition: where a network is uncertain, or like a stated distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

    from assay.data.choosing import RepresentativeSet
    from assay.data.manifest import Manifest


@dataclass(frozen=True)
class UncertainFrames:
    """The frames of a manifest in which a network is least certain.

    highest, lowest  mean entropy of its predictions in them, bits
    unknown          frames that satisfy the condition and that the validation didn't read
    """

    manifest: Manifest
    highest: float
    lowest: float
    unknown: int


def most_uncertain_frames(
    where: str,
    validation: str | PathLike[str],
    limit: int,
    *,
    catalog: str | PathLike[str] = "catalog.duckdb",
) -> UncertainFrames:
    """Frames in which a validated network is least certain, like `assay data query --most-uncertain`.

    validation  a directory of `assay data validate`

    Raises InputError for a wrong condition, or if the validation has fewer of these frames than the limit.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.manifest import made
    from assay.data.queries import chosen
    from assay.data.validated_frames import most_uncertain

    with reading(Path(catalog)) as opened:
        frames = {frame.label: frame for frame in chosen(opened, where)}
        about = opened.about
    ranked = most_uncertain(Path(validation), frames)
    if limit > len(ranked):
        raise InputError(
            f"{len(ranked)} of the {len(frames)} frames that satisfy the condition are in {validation}; "
            f"expected at least {limit}"
        )
    best = ranked[:limit]
    query = f"{where or 'all frames'}; the {limit} with the highest mean entropy in {validation}"
    manifest = made(about.root, about.layout, query, [frames[label] for label, _ in sorted(best)])
    return UncertainFrames(manifest, best[0][1], best[-1][1], len(frames) - len(ranked))


@dataclass(frozen=True)
class LikeFrames:
    """Frames whose classes are distributed like a target, and how far from it they are."""

    manifest: Manifest
    result: RepresentativeSet


def frames_like(
    where: str,
    target: str | PathLike[str],
    limit: int,
    *,
    seed: int = 0,
    catalog: str | PathLike[str] = "catalog.duckdb",
) -> LikeFrames:
    """Frames whose classes are distributed like a target, like `assay data query --like`.

    target  a JSON file of shares by class, or a manifest

    Raises InputError for a wrong condition or target, or if there are fewer frames than the limit.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.choosing import representative, target_of
    from assay.data.manifest import made

    with reading(Path(catalog)) as opened:
        result = representative(opened, where, target_of(Path(target), opened), limit, seed)
        about = opened.about
    query = f"{where or 'all frames'}; {limit} like {target}, seed {seed}, distance {result.distance:.4f}"
    return LikeFrames(made(about.root, about.layout, query, result.frames), result)

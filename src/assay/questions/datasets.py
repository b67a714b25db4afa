"""Labelled data: a catalog of its frames, questions to it, and manifests of chosen frames."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from assay.data.checking import DataCheck
    from assay.data.manifest import ChosenFrame, Manifest
    from assay.data.queries import ClassShare, SceneDrift, SqlAnswer
    from assay.data.scanning import Scan


def scan_data(
    root: str | PathLike[str],
    *,
    catalog: str | PathLike[str] = "catalog.duckdb",
    processes: int | None = None,
    ray: str | None = None,
    tags: str | PathLike[str] | None = None,
    bus: str | PathLike[str] | None = None,
    bus_within_s: float = 0.1,
    parquet: str | PathLike[str] | None = None,
    tell: Callable[[Scan], None] | None = None,
) -> Scan:
    """Bring a catalog up to date with a data set of labelled frames, like `assay data scan`.

    root          a directory, or s3://BUCKET/PREFIX
    catalog       a DuckDB file, made if it isn't there
    processes     that count pixels; None: one per CPU that this process may use
    ray           count on Ray instead: "local" for an embedded one, or a cluster's address
    tags          a CSV file of tags, which replace the catalog's
    bus           a place with SCENE/bus/*.json; None: those of the data set itself
    bus_within_s  how far in time a bus value may be from a frame
    parquet       a file that then gets all frames, sorted by label
    tell          takes the state so far, again and again

    Raises InputError if the data set is of no known layout, the tags are wrong, or the catalog is of another
    data set; HostError if a store or the workers fail.
    """
    from os import fspath
    from pathlib import Path

    from assay.data.parallel import Workers
    from assay.data.scanning import JoinedSources, export, scan

    sources = JoinedSources(
        None if tags is None else Path(tags), None if bus is None else fspath(bus), bus_within_s
    )
    workers = Workers(processes, ray)
    done = scan(fspath(root), Path(catalog), workers=workers, sources=sources, tell=tell or (lambda _: None))
    if parquet is not None:
        export(Path(catalog), Path(parquet))
    return done


def query_data(
    where: str = "",
    *,
    catalog: str | PathLike[str] = "catalog.duckdb",
    limit: int | None = None,
    seed: int = 0,
    balance: str | None = None,
) -> Manifest:
    """Frames that satisfy a condition, like `assay data query`.

    where    such as `road_blocks > 1% and camera = cam_front_center`; "" for all
    limit    take so many at random; the same ones for the same seed
    balance  a class: take as many frames without it as with it

    Raises InputError for a wrong condition, or if there are fewer frames than the limit.
    """
    from assay.data.queries import manifest_of
    from assay.records import FrameChoice

    return manifest_of(FrameChoice(str(catalog), where, limit, seed, balance))


def split_data(
    manifest: Manifest,
    percents: Sequence[float],
    *,
    seed: int = 0,
    catalog: str | PathLike[str] | None = None,
    balance: str | None = None,
) -> list[Manifest]:
    """Parts of a manifest with these percentages of each scene, at random; each frame is in one part.

    catalog  that the frames were chosen from, which has their scenes; None: a label's first folder is its
             scene, as in A2D2
    balance  a class of the catalog: each part has these percentages of the frames with it, and of the others

    Frames without a scene are split together. Raises InputError unless the percentages are above 0 and every
    part gets a frame.
    """
    from itertools import chain

    from assay.data.choosing import split
    from assay.data.manifest import made

    stated = "/".join(f"{percent:g}" for percent in percents)
    if not percents or any(not 0 < percent <= 100 for percent in percents):
        raise InputError(f"the parts {stated}: expected percentages above 0, like 80/10/10")
    scenes = _scenes(manifest, catalog)
    of_sides = [split(side, scenes, percents, seed) for side in _sides(manifest, catalog, balance)]
    parts = [sorted(chain(*part), key=lambda frame: frame.label) for part in zip(*of_sides, strict=True)]
    if empty := [number for number, part in enumerate(parts, 1) if not part]:
        raise InputError(
            f"part {empty[0]} of {stated} would have none of the {len(manifest.frames):,} frames; choose "
            "more frames, or a larger percentage"
        )
    query = f"{manifest.query}; split by {'scene' if any(scenes.values()) else 'frame'} into {stated}"
    return [
        made(manifest.root, manifest.layout, f"{query}, part {number}, seed {seed}", part)
        for number, part in enumerate(parts, 1)
    ]


def frames_without_scene(manifest: Manifest, *, catalog: str | PathLike[str]) -> int:
    """How many frames of a manifest have no scene in their catalog, as those of COCO.

    Raises InputError if there is no such catalog.
    """
    return sum(1 for scene in _scenes(manifest, catalog).values() if not scene)


def _sides(
    manifest: Manifest, catalog: str | PathLike[str] | None, balance: str | None
) -> list[list[ChosenFrame]]:
    """The frames with a class and those without it; all of them if there is no class."""
    if balance is None or catalog is None:
        return [list(manifest.frames)]
    labels = {frame.label for frame in query_data(f"{balance} > 0", catalog=catalog).frames}
    return [[frame for frame in manifest.frames if (frame.label in labels) == side] for side in (True, False)]


def _scenes(manifest: Manifest, catalog: str | PathLike[str] | None) -> dict[str, str]:
    """The scene of each label; "" for none."""
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.choosing import scenes_of

    if catalog is None:
        return {frame.label: frame.label.partition("/")[0] for frame in manifest.frames}
    with reading(Path(catalog)) as opened:
        return scenes_of(opened, manifest.frames)


def check_data(
    workload: str,
    path: str | PathLike[str],
    *,
    params: Mapping[str, object] | None = None,
    processes: int | None = None,
    tell: Callable[[DataCheck], None] | None = None,
) -> DataCheck:
    """Read a training's whole data set once with its own loaders, like `assay data check WORKLOAD PATH`.

    params     other parameters of the workload that its loaders use, such as `camera`
    processes  that read; None: one per CPU that this process may use
    tell       takes the state so far, again and again

    Raises InputError for a workload that trains on no data set, wrong parameters, or another layout.
    """
    import os
    import sys
    from pathlib import Path

    from pydantic import ValidationError

    from assay.data.checking import difference_from_official, run_check
    from assay.records import Shape
    from assay.workloads import WORKLOADS
    from assay.workloads.training import TrainingParams

    trainings = [
        name for name, definition in WORKLOADS.items() if issubclass(definition.params, TrainingParams)
    ]
    if workload not in trainings:
        raise InputError(f"{workload}: trains on no data set; expected one of {', '.join(trainings)}")
    directory = Path(path).absolute()
    if not directory.is_dir():
        raise InputError(f"{path}: is not a directory; expected that of the data set")
    values = {**(params or {}), "mode": "data-only", "data": str(directory)}
    try:
        validated = WORKLOADS[workload].params.model_validate(values)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        raise InputError("; ".join(wrong)) from None
    argv = WORKLOADS[workload].task(validated, Shape(1, 1), 1).argv
    workers = processes or len(os.sched_getaffinity(0))
    own = ["--mode", "check", "--device", "cpu", "--workers", str(workers)]
    program = [sys.executable if word == "{python}" else word for word in argv]
    check = run_check([*program, *own], tell or (lambda _: None))
    check.official = difference_from_official(workload, check.samples)
    return check


def class_shares(
    where: str = "", *, catalog: str | PathLike[str] = "catalog.duckdb"
) -> tuple[int, list[ClassShare]]:
    """The number of frames that satisfy a condition, and each class over them, like `assay data classes`.

    Raises InputError for a wrong condition.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.queries import shares

    with reading(Path(catalog)) as opened:
        return shares(opened, where)


def classes_together(
    classes: Sequence[str], where: str = "", *, catalog: str | PathLike[str] = "catalog.duckdb"
) -> list[list[int]]:
    """How many frames show both of two classes, for each pair of the given ones.

    Raises InputError for a class that the catalog does not have, or a wrong condition.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.queries import together

    with reading(Path(catalog)) as opened:
        return together(opened, classes, where)


def scene_drift(where: str = "", *, catalog: str | PathLike[str] = "catalog.duckdb") -> list[SceneDrift]:
    """How far each scene's classes are from those of all frames, like `assay data classes --scenes`.

    Raises InputError for a wrong condition.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.queries import drift

    with reading(Path(catalog)) as opened:
        return drift(opened, where)


def query_data_sql(
    text: str, *, catalog: str | PathLike[str] = "catalog.duckdb", timeout_s: float = 60.0
) -> SqlAnswer:
    """The answer to SQL on the tables `frames` and `damaged`, like `assay data query --sql`.

    Raises InputError for a wrong query, one that takes longer, or an answer of more than a million rows.
    """
    from pathlib import Path

    from assay.data.catalog import reading
    from assay.data.queries import sql

    with reading(Path(catalog)) as opened:
        return sql(opened, text, timeout_s)


def shares_document(count: int, shares: Sequence[ClassShare]) -> dict[str, Any]:
    """Classes over frames."""
    return {"frames": count, "classes": [asdict(share) for share in shares]}

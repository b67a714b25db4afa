"""Frames chosen by what is on them, or any question in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from assay.data.catalog import reading
from assay.data.choosing import RepresentativeSet, representative, scenes_of, split, target_of
from assay.data.queries import SLOWEST_S, SqlAnswer, chosen, manifest_of, sql
from assay.data.questions import ABOUT_CATALOG, CATALOG, CATALOG_VARIABLE
from assay.data.validated_frames import most_uncertain
from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.frame_manifest import ChosenFrame, Manifest, made, write_manifest
from assay.questions.question import Answer, Count, Question, Reads, argument, option, question
from assay.questions.values import Duration, File, Folder
from assay.records import FrameChoice
from assay.units import counted, human, seconds
from assay.view.blocks import Block, Paragraph

MOST_SHOWN = 10  # frames


def _percentages(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split("/")]
    except ValueError:
        raise ValueError(f"{text!r}: expected percentages like 80/10/10") from None


@question
class QueryData(Question):
    """Choose frames of a catalog by a condition on their classes and origin.

    CONDITION compares a class or one of scene, camera, label, image, width, height, pixels, taken_us, unknown
    with a value, joined by and, or, not and parentheses. A class is compared in pixels, or in percent of the
    frame's. `assay data classes` lists the classes.

    The manifest has a line per frame and a digest of them all. A query in SQL can change nothing, and reaches
    no other file.

    \b
    Examples:
      assay data query 'road_blocks > 1% and camera = cam_front_center'
      assay data query 'pedestrian = 5000..6000 and bicycle = 0' --limit 1000 --seed 7 --manifest some.jsonl
      assay data query 'camera in (cam_front_left, cam_front_right)' --balance bicycle
      assay data query --split 80/10/10 --manifest a2d2.jsonl      a2d2-1.jsonl, a2d2-2.jsonl, a2d2-3.jsonl
      assay data query 'bicycle > 0' --most-uncertain validated --limit 500 --manifest learn-next.jsonl
      assay data query --like shares.json --limit 2000 --seed 1 --manifest representative.jsonl
      assay data query 'road_blocks > 0' --page road-blocks.html
      assay data query --sql 'SELECT scene, count(*) FROM frames GROUP BY scene'

    \b
    Exit codes: 0 found; 1 no frame satisfies the condition; 4 the condition or the catalog is wrong; 5 the
    manifest can't be written.
    """

    where: str = argument(default="", metavar="[CONDITION]")
    catalog: File = option(ABOUT_CATALOG, default=CATALOG, variable=CATALOG_VARIABLE)
    limit: Count | None = option("So many frames, at random.", default=None)
    seed: int = option("Of the random choice.", default=0)
    balance: str | None = option("As many frames without a class as with it.", default=None, metavar="CLASS")
    split: Annotated[Sequence[float], Reads(_percentages, "PERCENTAGES")] | None = option(
        "Parts by scene, a manifest each: 80/10/10.", default=None
    )
    manifest: Path | None = option("Write the chosen frames to a file.", default=None, output=True)
    validation: Folder | None = option(
        "Those in which a validated network is least certain; with --limit.",
        default=None,
        names=("--most-uncertain",),
        metavar="DIR",
    )
    like: File | None = option(
        "A set with the classes of a manifest, or with stated shares; with --limit.", default=None
    )
    page: Path | None = option("Write a page of pictures.", default=None, output=True)
    sql: str | None = option(
        "SQL on the tables `frames` and `damaged` instead.", default=None, metavar="QUERY"
    )
    timeout: Duration = option("Longest SQL query.", default="60s")

    def __post_init__(self) -> None:
        ranked = [option for option in (self.validation, self.like) if option]
        others = (self.where, self.limit, self.balance, self.split, self.manifest, self.page, *ranked)
        if self.sql is not None and any(others):
            raise ValueError("--sql stands alone, without a condition and its options")
        if len(ranked) > 1 or (ranked and (self.limit is None or self.balance)):
            raise ValueError("--most-uncertain or --like: one of them, with --limit, without --balance")

    def answer(self) -> FrameSelection | SqlAnswer:
        """The frames in their parts, or the rows of a query in SQL."""
        where, catalog, seed = self.where, self.catalog, self.seed
        figures: dict[str, Any] = {}
        if self.sql is not None:
            return query_data_sql(self.sql, catalog=catalog, timeout_s=seconds(self.timeout))
        if self.limit is not None and (self.validation or self.like):
            selected, figures = self._ranked(self.limit)
        else:
            selected = query_data(where, catalog=catalog, limit=self.limit, seed=seed, balance=self.balance)
        if self.split is None or not selected.frames:
            return FrameSelection(selected, (selected,), self._files(1), self.page, figures)
        parts = split_data(selected, self.split, seed=seed, catalog=catalog, balance=self.balance)
        without = frames_without_scene(selected, catalog=catalog)
        return FrameSelection(selected, tuple(parts), self._files(len(parts)), self.page, figures, without)

    def write(self, answer: FrameSelection | SqlAnswer) -> Answer:
        """The manifests and the page, unless there is no frame."""
        if isinstance(answer, FrameSelection) and answer.manifest.frames:
            for part, file in zip(answer.parts, answer.files, strict=False):
                write_manifest(file, part)
            if self.page is not None:
                from assay.data.pages import query_page

                query_page(answer.manifest, self.page)
        return answer

    def _files(self, parts: int) -> tuple[Path, ...]:
        file = self.manifest
        if file is None or parts == 1:
            return () if file is None else (file,)
        return tuple(file.with_name(f"{file.stem}-{number}{file.suffix}") for number in range(1, parts + 1))

    def _ranked(self, limit: int) -> tuple[Manifest, dict[str, Any]]:
        """The frames of --most-uncertain or --like, and what there is to say of them."""
        if self.validation is not None:
            uncertain = most_uncertain_frames(self.where, self.validation, limit, catalog=self.catalog)
            sentence = f"mean entropy {uncertain.highest:.3f} to {uncertain.lowest:.3f} bits"
            if uncertain.unknown:
                sentence += f"; {uncertain.unknown:,} frames are unknown there and were not ranked"
            figures = {"highest_bits": uncertain.highest, "lowest_bits": uncertain.lowest}
            return uncertain.manifest, {**figures, "not_ranked": uncertain.unknown, "sentence": sentence}
        assert self.like is not None
        alike = frames_like(self.where, self.like, limit, seed=self.seed, catalog=self.catalog)
        result = alike.result
        sentence = (
            f"Jensen-Shannon distance from {self.like}: {result.distance:.4f} (a random set of this size: "
            f"{result.at_random:.4f}); farthest: {result.farthest}, {result.share:.2%} instead of "
            f"{result.target:.2%}"
        )
        figures = {"distance": result.distance, "distance_at_random": result.at_random}
        return alike.manifest, {**figures, "sentence": sentence}


@dataclass(frozen=True)
class FrameSelection(Answer):
    """Chosen frames in parts, each with the file of its manifest if there is one.

    figures        of how they were chosen, and a `sentence` of them
    without_scene  frames that have none; None if they were not split
    """

    manifest: Manifest
    parts: tuple[Manifest, ...]
    files: tuple[Path, ...]
    page: Path | None
    figures: Mapping[str, Any]
    without_scene: int | None = None

    @property
    def exit_code(self) -> int:
        """1 if there is no frame."""
        return EXIT_OK if self.manifest.frames else EXIT_WORSE

    def view(self) -> Iterator[Block]:
        """The first frames, unless a file has them all; each part; and how they were chosen."""
        frames = self.manifest.frames
        if not self.files:
            yield from (Paragraph(frame.label) for frame in frames[:MOST_SHOWN])
            if (more := len(frames) - MOST_SHOWN) > 0:
                yield Paragraph(f"and {more:,} more; --manifest FILE keeps them all")
        for number, part in enumerate(self.parts):
            where = f": {self.files[number]}" if self.files and part.frames else ""
            share = f" ({len(part.frames) / len(frames):.1%})" if len(self.parts) > 1 else ""
            size = human(float(part.bytes), "B")
            number_of_frames = f"{counted(len(part.frames), 'frame')}{share}"
            yield Paragraph(f"{number_of_frames}, {size}, digest {part.digest[:12]}{where}")
        if self.figures:
            yield Paragraph(self.figures["sentence"])
        if self.without_scene and self.without_scene == len(frames):
            yield Paragraph(
                "The data set states no scenes: split by frame, so neighbors may be in different parts"
            )
        elif self.without_scene:
            yield Paragraph(
                f"{self.without_scene:,} frames have no scene: they were split by frame, the others by scene"
            )
        if self.page is not None and frames:
            yield Paragraph(f"page: {self.page}")

    def document(self) -> Any:
        """The manifest with what there is to say of it; each part's, if there are several."""
        parts = [{**asdict(part), "bytes": part.bytes} for part in self.parts]
        return parts if self.without_scene is not None else {**parts[0], **self.figures}


def query_data(
    where: str = "",
    *,
    catalog: str | PathLike[str] = CATALOG,
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
    return manifest_of(FrameChoice(str(catalog), where, limit, seed, balance))


def query_data_sql(
    text: str, *, catalog: str | PathLike[str] = CATALOG, timeout_s: float = SLOWEST_S
) -> SqlAnswer:
    """The answer to SQL on the tables `frames` and `damaged`, like `assay data query --sql`.

    Raises InputError for a wrong query, one that takes longer, or an answer of more than a million rows.
    """
    with reading(Path(catalog)) as opened:
        return sql(opened, text, timeout_s)


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
    if catalog is None:
        return {frame.label: frame.label.partition("/")[0] for frame in manifest.frames}
    with reading(Path(catalog)) as opened:
        return scenes_of(opened, manifest.frames)


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
    catalog: str | PathLike[str] = CATALOG,
) -> UncertainFrames:
    """Frames in which a validated network is least certain, like `assay data query --most-uncertain`.

    validation  a directory of `assay data validate`

    Raises InputError for a wrong condition, or if the validation has fewer of these frames than the limit.
    """
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
    catalog: str | PathLike[str] = CATALOG,
) -> LikeFrames:
    """Frames whose classes are distributed like a target, like `assay data query --like`.

    target  a JSON file of shares by class, or a manifest

    Raises InputError for a wrong condition or target, or if there are fewer frames than the limit.
    """
    with reading(Path(catalog)) as opened:
        result = representative(opened, where, target_of(Path(target), opened), limit, seed)
        about = opened.about
    query = f"{where or 'all frames'}; {limit} like {target}, seed {seed}, distance {result.distance:.4f}"
    return LikeFrames(made(about.root, about.layout, query, result.frames), result)

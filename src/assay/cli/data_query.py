"""`assay data query`: frames chosen by what is on them, or any question in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.data import CATALOG
from assay.cli.options import JSON, duration, echo_json

if TYPE_CHECKING:
    from assay.data.manifest import Manifest
    from assay.data.queries import SqlAnswer

MOST_SHOWN = 10  # frames


@click.command("query")
@click.argument("where", metavar="[CONDITION]", required=False, default="")
@CATALOG
@click.option("--limit", type=click.IntRange(min=1), help="So many frames, at random.")
@click.option("--seed", default=0, show_default=True, help="Of the random choice.")
@click.option("--balance", metavar="CLASS", help="As many frames without a class as with it.")
@click.option("--split", metavar="PERCENTAGES", help="Parts by scene, a manifest each: 80/10/10.")
@click.option("--manifest", type=click.Path(path_type=Path), help="Write the chosen frames to a file.")
@click.option(
    "--most-uncertain",
    "validation",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Those in which a validated network is least certain; with --limit.",
)
@click.option(
    "--like",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A set with the classes of a manifest, or with stated shares; with --limit.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page of pictures.")
@click.option("--sql", metavar="QUERY", help="SQL on the tables `frames` and `damaged` instead.")
@click.option("--timeout", callback=duration, default="60s", show_default=True, help="Longest SQL query.")
@JSON
def command(
    where: str,
    catalog: Path,
    limit: int | None,
    seed: int,
    balance: str | None,
    split: str | None,
    manifest: Path | None,
    validation: Path | None,
    like: Path | None,
    page: Path | None,
    sql: str | None,
    timeout: float,
    as_json: bool,
) -> None:
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
    from assay.questions.datasets import query_data, query_data_sql, split_data

    if sql is not None:
        if where or limit or balance or split or manifest or validation or like or page:
            raise click.UsageError("--sql stands alone, without a condition and its options")
        _show_answer(query_data_sql(sql, catalog=catalog, timeout_s=timeout), as_json=as_json)
        return
    summary: dict[str, object] = {}
    if validation is not None or like is not None:
        if (validation is not None and like is not None) or limit is None or balance:
            raise click.UsageError("--most-uncertain or --like: one of them, with --limit, without --balance")
        chosen, summary = _ranked(where, catalog, limit, seed, validation, like)
    else:
        chosen = query_data(where, catalog=catalog, limit=limit, seed=seed, balance=balance)
    parts = (
        [chosen]
        if split is None or not chosen.frames
        else split_data(chosen, _percents(split), seed=seed, catalog=catalog, balance=balance)
    )
    files = _written(chosen, parts, manifest, page)
    if as_json:
        echo_json(
            [_manifest_as_data(part) for part in parts] if split else {**_manifest_as_data(chosen), **summary}
        )
    else:
        _show(chosen, parts, files)
        if summary:
            click.echo(summary["sentence"])
        if split is not None and chosen.frames:
            _show_without_scene(chosen, catalog)
        if page is not None and chosen.frames:
            click.echo(f"page: {page}")
    if not chosen.frames:
        click.get_current_context().exit(1)


def _written(chosen: Manifest, parts: list[Manifest], manifest: Path | None, page: Path | None) -> list[Path]:
    """Write the manifests and the page, unless there is no frame; the names of the manifests."""
    from assay.data.manifest import write_manifest
    from assay.questions.data_pages import query_page

    files = _files(manifest, len(parts))
    if chosen.frames:
        for part, file in zip(parts, files, strict=False):
            write_manifest(file, part)
        if page is not None:
            query_page(chosen, page)
    return files


def _show_without_scene(chosen: Manifest, catalog: Path) -> None:
    from assay.questions.datasets import frames_without_scene

    without = frames_without_scene(chosen, catalog=catalog)
    if without == len(chosen.frames):
        click.echo("The data set states no scenes: split by frame, so neighbors may be in different parts")
    elif without:
        click.echo(f"{without:,} frames have no scene: they were split by frame, the others by scene")


def _ranked(
    where: str, catalog: Path, limit: int, seed: int, validation: Path | None, like: Path | None
) -> tuple[Manifest, dict[str, object]]:
    """The frames of --most-uncertain or --like, and what there is to say of them."""
    from assay.questions.data_choice import frames_like, most_uncertain_frames

    if validation is not None:
        uncertain = most_uncertain_frames(where, validation, limit, catalog=catalog)
        sentence = f"mean entropy {uncertain.highest:.3f} to {uncertain.lowest:.3f} bits"
        if uncertain.unknown:
            sentence += f"; {uncertain.unknown:,} frames are unknown there and were not ranked"
        figures = {"highest_bits": uncertain.highest, "lowest_bits": uncertain.lowest}
        return uncertain.manifest, {**figures, "not_ranked": uncertain.unknown, "sentence": sentence}
    assert like is not None
    alike = frames_like(where, like, limit, seed=seed, catalog=catalog)
    result = alike.result
    sentence = (
        f"Jensen-Shannon distance from {like}: {result.distance:.4f} (a random set of this size: "
        f"{result.at_random:.4f}); farthest: {result.farthest}, {result.share:.2%} instead of "
        f"{result.target:.2%}"
    )
    figures = {"distance": result.distance, "distance_at_random": result.at_random}
    return alike.manifest, {**figures, "sentence": sentence}


def _percents(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split("/")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected percentages like 80/10/10", param_hint="--split"
        ) from None


def _files(manifest: Path | None, parts: int) -> list[Path]:
    if manifest is None:
        return []
    if parts == 1:
        return [manifest]
    return [
        manifest.with_name(f"{manifest.stem}-{number}{manifest.suffix}") for number in range(1, parts + 1)
    ]


def _show(chosen: Manifest, parts: list[Manifest], files: list[Path]) -> None:
    from assay.units import counted, human

    for frame in chosen.frames[:MOST_SHOWN] if not files else ():
        click.echo(frame.label)
    if len(chosen.frames) > MOST_SHOWN and not files:
        click.echo(f"and {len(chosen.frames) - MOST_SHOWN:,} more; --manifest FILE keeps them all")
    for number, part in enumerate(parts):
        where = f": {files[number]}" if files and part.frames else ""
        size = human(float(part.bytes), "B")
        share = f" ({len(part.frames) / len(chosen.frames):.1%})" if len(parts) > 1 else ""
        click.echo(f"{counted(len(part.frames), 'frame')}{share}, {size}, digest {part.digest[:12]}{where}")


def _show_answer(answer: SqlAnswer, *, as_json: bool) -> None:
    from assay.cli.data_table import DataTable, TableColumn

    if as_json:
        echo_json(answer.document())
        return
    kinds = [
        all(isinstance(row[column], (int, float, type(None))) for row in answer.rows)
        for column in range(len(answer.columns))
    ]
    table = DataTable(
        [TableColumn(name, number=number) for name, number in zip(answer.columns, kinds, strict=True)]
    )
    for row in answer.rows:
        table.add("" if value is None else str(value) for value in row)
    table.show()


def _manifest_as_data(manifest: Manifest) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(manifest), "bytes": manifest.bytes}

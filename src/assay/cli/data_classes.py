"""`assay data classes`: what the frames of a catalog show, over all, together, and by scene."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.data import CATALOG
from assay.cli.options import JSON, echo_json

if TYPE_CHECKING:
    from assay.cli.data_table import DataTable


@click.command("classes")
@click.argument("where", metavar="[CONDITION]", required=False, default="")
@CATALOG
@click.option("--together", metavar="CLASSES", help="Frames that show both of two: car,bicycle,pedestrian.")
@click.option("--scenes", is_flag=True, help="How far each scene is from all frames.")
@JSON
def command(where: str, catalog: Path, together: str | None, scenes: bool, as_json: bool) -> None:
    """Show how much of each class the frames of a catalog have.

    CONDITION chooses frames, as for `assay data query`. A share is of all pixels of these frames.
    `--scenes` compares each scene's shares with those of all frames: the Jensen-Shannon distance is 0 if they
    are alike, and 1 if they have no class in common.

    \b
    Examples:
      assay data classes
      assay data classes 'camera = cam_front_center'
      assay data classes --together car,bicycle,pedestrian
      assay data classes --scenes

    \b
    Exit codes: 0 shown; 1 no frame satisfies the condition; 4 the condition, a class or the catalog is wrong.
    """
    if together is not None and scenes:
        raise click.UsageError("--together and --scenes are two questions; ask one")
    if together is not None:
        _show_together([name.strip() for name in together.split(",")], where, catalog, as_json=as_json)
        return
    if scenes:
        from assay.questions.datasets import scene_drift

        drifts = scene_drift(where, catalog=catalog)
        if as_json:
            from dataclasses import asdict

            echo_json({"scenes": [asdict(drift) for drift in drifts]})
        else:
            table = _table(
                "scene", "frames", "distance", "at random", "differs most in", "share there", "of all"
            )
            for drift in drifts:
                there, of_all = f"{drift.share:.2%}", f"{drift.of_all:.2%}"
                apart = [f"{drift.distance:.3f}", f"{drift.at_random:.3f}"]
                table.add([drift.scene, f"{drift.frames:,}", *apart, drift.class_, there, of_all])
            table.show()
            click.echo(
                "At random: 19 of 20 random sets of as many frames are at most this far from all frames"
            )
        return
    from assay.questions.datasets import class_shares, shares_document

    count, shares = class_shares(where, catalog=catalog)
    if as_json:
        echo_json(shares_document(count, shares))
    else:
        table = _table("class", "in a condition", "share of pixels", "frames", "largest in a frame")
        for share in shares:
            table.add(
                [share.name, share.column, f"{share.share:.3%}", f"{share.frames:,}", f"{share.largest:.2%}"]
            )
        table.show()
        click.echo(f"{count:,} frames")
    if not count:
        click.get_current_context().exit(1)


def _show_together(classes: list[str], where: str, catalog: Path, *, as_json: bool) -> None:
    from assay.questions.datasets import classes_together

    counts = classes_together(classes, where, catalog=catalog)
    if as_json:
        echo_json({"classes": classes, "frames": counts})
        return
    table = _table("", *classes)
    for name, row in zip(classes, counts, strict=True):
        table.add([name, *(f"{count:,}" for count in row)])
    table.show()


def _table(*columns: str) -> DataTable:
    from assay.cli.data_table import DataTable, TableColumn

    text_columns = {columns[0], "in a condition", "differs most in"}
    return DataTable([TableColumn(name, number=name not in text_columns) for name in columns])

"""`assay data validate`: a trained network over all frames of a manifest."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.data import CATALOG
from assay.cli.options import JSON, echo_json
from assay.cli.redacting_stream import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.data.validation import Validation, ValidationProgress

MOST_NAMED, MOST_GROUPS = 5, 20


@click.command("validate")
@click.argument("checkpoint", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("manifest", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--into",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory that keeps each chunk, and the result.",
)
@click.option(
    "--from",
    "source",
    metavar="PLACE",
    help="The data set's directory, or s3://BUCKET/PREFIX.  [default: as in the manifest]",
)
@click.option("--workers", type=click.IntRange(min=1), help="Workers at once.  [default: one per CPU]")
@click.option("--ray", metavar="ADDRESS", help="A Ray cluster: auto, HOST:PORT, ray://HOST:PORT, or local.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Take the chunks that a run of `segmentation-validation` has printed.",
)
@click.option("--by", multiple=True, metavar="COLUMN", help="Group frames by a column of the catalog, too.")
@CATALOG
@click.option(
    "--batch-size", type=click.IntRange(min=1), default=4, show_default=True, help="Frames at once."
)
@click.option(
    "--chunk-frames", type=click.IntRange(min=1), default=64, show_default=True, help="Frames of a chunk."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="auto: GPUs where there are any.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with pictures.")
@click.option("--render", type=click.Choice(["rayjob"]), help="Print a manifest for KubeRay, and do nothing.")
@click.option("--system", help="With --render: the system on Kubernetes whose image and volumes it gets.")
@click.option("--systems", type=click.Path(path_type=Path, dir_okay=False), help="File with that system.")
@JSON
def command(
    checkpoint: Path,
    manifest: Path,
    into: Path,
    source: str | None,
    workers: int | None,
    ray: str | None,
    runs: tuple[Path, ...],
    by: tuple[str, ...],
    catalog: Path,
    batch_size: int,
    chunk_frames: int,
    device: str,
    page: Path | None,
    render: str | None,
    system: str | None,
    systems: Path | None,
    as_json: bool,
) -> None:
    """Count what a trained segmentation network makes of every frame of a manifest.

    Workers compute chunks of frames; this process keeps each chunk in a file and adds them up. After a kill
    of a worker or of this process, the same command computes only what is missing. The counts are the same
    for any number of workers, on one kind of device.

    CHECKPOINT is trained.pt or checkpoint.pt of a training of the workload `segmentation`. Pixels are counted
    at the size that it was trained at. Frames that can't be read are named and left out.

    \b
    Examples:
      assay data validate /runs/a2d2/trained.pt all.jsonl --into validated --page validated.html
      assay data validate checkpoint.pt all.jsonl --into validated --ray local --workers 2
      assay data validate checkpoint.pt all.jsonl --into validated --ray ray://head:10001 --by weather
      assay data validate /data/checkpoint.pt /data/all.jsonl --into /data/validated --workers 8 \\
        --render rayjob --system cluster | kubectl create -f -
      assay data validate checkpoint.pt all.jsonl --into validated --run runs/validation/20260301T101500Z

    \b
    Exit codes: 0 every frame counts; 1 some can't be read; 4 an input is wrong or damaged; 5 workers are
    killed again and again, or a file can't be written; 6 another process works on the directory.
    """
    from assay.questions.validate_data import validate_data, validation_rayjob

    if render is not None:
        if system is None:
            raise click.UsageError("--render needs --system: a system on Kubernetes with image and volumes")
        more = ["--batch-size", str(batch_size), "--chunk-frames", str(chunk_frames), "--device", device]
        more += ["--from", source] if source is not None else []
        more += [word for column in by for word in ("--by", column)]
        more += ["--catalog", str(catalog)] if by else []
        paths = (str(checkpoint), str(manifest), str(into))
        click.echo(
            validation_rayjob(*paths, system=system, systems=systems, workers=workers or 1, more=more),
            nl=False,
        )
        return
    live = sys.stderr.isatty() and not as_json
    validation = validate_data(
        checkpoint,
        manifest,
        into,
        source=source,
        workers=workers,
        ray=ray,
        runs=runs,
        by=by,
        catalog=catalog,
        batch_size=batch_size,
        chunk_frames=chunk_frames,
        device=device,
        tell=_progress() if live else None,
    )
    if live:
        show_progress("")
    if page is not None:
        from assay.questions.data_pages import validation_page

        validation_page(validation, checkpoint, page, source=source, device=device)
    if as_json:
        echo_json(validation.document())
    else:
        _show(validation, into, page)
    if validation.unreadable:
        click.get_current_context().exit(1)


def _show(validation: Validation, into: Path, page: Path | None) -> None:
    from assay.report import figures
    from assay.units import counted

    def share(value: float | None) -> str:
        return "not defined" if value is None else figures.percent(value)

    def interval(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f" ({figures.percent(low)} to {figures.percent(high)})"

    mean = f"{share(validation.mean_iou)}{interval(validation.mean_iou_low, validation.mean_iou_high)}"
    accuracy = share(validation.pixel_accuracy) + interval(
        validation.pixel_accuracy_low, validation.pixel_accuracy_high
    )
    click.echo(f"mean IoU {mean}; pixel accuracy {accuracy}")
    frames = f"{counted(validation.validated, 'frame')} of {counted(validation.scenes, 'scene')}"
    click.echo(
        f"{frames}, network of step {validation.about.step:,}, digest {validation.about.manifest[:12]}"
    )
    for shown in sorted((c for c in validation.classes if c.iou is not None), key=lambda c: c.iou or 0.0):
        click.echo(f"  {share(shown.iou):>8}{interval(shown.low, shown.high)}  {shown.name}")
    if absent := [class_result.name for class_result in validation.classes if class_result.iou is None]:
        click.echo(f"in no label, so without a figure: {', '.join(absent)}")
    _show_groups(validation, share)
    if validation.mean_iou_low is None:
        click.echo("no intervals: they need at least 8 scenes")
    if validation.unreadable:
        click.echo(f"{counted(validation.unreadable, 'frame')} can't be read and don't count:")
        for label, why in validation.unreadable_frames[:MOST_NAMED]:
            click.echo(f"  {label}: {why}")
    kept = f"{into}: frames.parquet, result.json"
    click.echo(kept if page is None else f"{kept}; {page}")


def _show_groups(validation: Validation, share: Callable[[float | None], str]) -> None:
    """The groups of each column that has several, the worst first."""
    for column in dict.fromkeys(group.column for group in validation.groups):
        groups = [group for group in validation.groups if group.column == column]
        if len(groups) < 2:
            continue
        click.echo(f"mean IoU by {column}")
        worst = sorted(groups, key=lambda group: 2.0 if group.mean_iou is None else group.mean_iou)
        for group in worst[:MOST_GROUPS]:
            click.echo(f"  {share(group.mean_iou):>8}  {group.value}, {group.frames:,} frames")
        if len(groups) > MOST_GROUPS:
            most = "more than " if column in validation.more_groups else ""
            click.echo(f"  and {most}{len(groups) - MOST_GROUPS:,} better ones")


def _progress() -> Callable[[ValidationProgress], None]:
    from assay.units import rough_seconds

    drawn = 0.0

    def tell(done: ValidationProgress) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < 0.1:
            return
        drawn = now
        left = ""
        if done.computed_frames:
            rest = done.seconds / done.computed_frames * (done.frames - done.done_frames)
            left = f", {done.computed_frames / done.seconds:.1f} frames/s, {rough_seconds(rest)} left"
        show_progress(f"{done.done_frames:,} of {done.frames:,} frames{left}")

    return tell

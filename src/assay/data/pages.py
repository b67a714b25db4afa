"""Pages with pictures of frames: those of a query, and a validation with its figures and worst frames."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

from assay.data.validation import ClassResult, FrameResult, GroupResult, Validation
from assay.durable import deliver
from assay.errors import HostError, InputError
from assay.frame_manifest import ChosenFrame, Manifest
from assay.records import ConfusionMatrix
from assay.units import counted, human
from assay.version import __version__
from assay.view import figures
from assay.view.blocks import (
    Block,
    Chart,
    Facts,
    Heading,
    Lead,
    NamedText,
    Paragraph,
    Picture,
    Pictures,
    Table,
    TableBody,
    TableRow,
    facts_of,
)
from assay.view.charts.classes import NamedShare, matrix_chart, share_bars
from assay.view.document import document

MOST_PICTURES: Final = 120  # frames of a query's page: about 3 MB
MOST_ROWS: Final = 500  # of a table of groups, the worst first
WIDEST: Final = 320  # pixels of a picture
QUALITY: Final = 80  # of JPEG
OVERLAY: Final = 0.5  # how much of a label covers its image
_FRAMES_FOOTER = (
    f"Made by Assay {__version__}. The pictures are parts of a data set: its licence says who may have them."
)
_VALIDATION_FOOTER = (
    f"Made by Assay {__version__}. IoU is the intersection over the union of a class's true and predicted "
    "pixels. A class that no label has is without a figure; what was predicted as it counts as an error of "
    "the other classes. Intervals are 95 %, by a cluster bootstrap: scenes are drawn with replacement, "
    "because the frames of a scene resemble each other, and the standard error on the logit scale is "
    "multiplied by Student's t for the number of scenes. They need 8 scenes."
)


def query_page(manifest: Manifest, page: str | PathLike[str]) -> int:
    """Write a page with pictures of chosen frames, like `assay data query --page`; the number of them.

    At most 120 frames are shown, evenly spread over the manifest. What can't be read is named in its place.

    Raises InputError without Pillow or the data set's directory, HostError if the page can't be written.
    """
    pictures, why = frame_pictures(manifest)
    if why:
        raise InputError(why)
    shown = "" if len(pictures) == len(manifest.frames) else f"; {len(pictures):,} of them are shown"
    blocks: list[Block] = [
        Lead(f"{counted(len(manifest.frames), 'frame')}{shown}."),
        facts_of([*about_manifest(manifest), ("Size", human(float(manifest.bytes), "B"))]),
        *frames_section(pictures),
    ]
    text = document(manifest.query, "Assay data query", blocks, footer=_FRAMES_FOOTER, pictures=True)
    deliver(Path(page), text.encode(), option="--page")
    return len(pictures)


def about_manifest(manifest: Manifest) -> list[tuple[str, str]]:
    """The data set that the frames are from, and which frames they are."""
    return [("Data set", manifest.root), ("Digest", manifest.digest[:12])]


def frames_section(pictures: Sequence[Pictures]) -> list[Block]:
    """The pictures of a query, with how to read them."""
    how = Paragraph("On the left the image, on the right the same with the colors of its label.", "dim")
    return [Heading("Frames", "frames"), how, *pictures]


def frame_pictures(manifest: Manifest, most: int = MOST_PICTURES) -> tuple[list[Pictures], str]:
    """Pictures of at most so many frames, evenly spread over the manifest; and why there are none, or ""."""
    try:
        _check_pillow()
    except InputError as error:
        return [], str(error)
    root = Path(manifest.root)
    if not root.is_dir():
        return [], f"{root}: is not a directory on this machine; pictures are made where the data is"
    frames = manifest.frames
    step = max(1, -(-len(frames) // most))
    return [_overlaid(root, frame) for frame in frames[::step]], ""


def validation_page(
    validation: Validation,
    checkpoint: str | PathLike[str],
    page: str | PathLike[str],
    *,
    source: str | PathLike[str] | None = None,
    device: str = "auto",
) -> None:
    """Write a page about a validation, with pictures of its worst frames.

    checkpoint  the network, which predicts those frames once more
    source      the data set's directory; None: the one that was validated

    Raises HostError if the page can't be written.
    """
    try:
        _check_pillow()
        pictures, why = [*_worst(validation, Path(checkpoint), source, device)], ""
    except InputError as error:
        pictures, why = [], str(error)
    deliver(Path(page), validation_html(validation, pictures, why).encode(), option="--page")


def validation_html(validation: Validation, pictures: Sequence[Pictures], why: str = "") -> str:
    """The complete page; why: the reason why there are no pictures."""
    about, unreadable = validation.about, validation.unreadable_frames
    rated = [c for c in validation.classes if c.iou is not None]
    blocks: list[Block] = [
        Lead(_lead(validation)),
        facts_of(
            [
                ("Checkpoint", f"{about.checkpoint[:12]}, step {about.step:,}"),
                ("Frames", f"{about.manifest[:12]}: {about.query}"),
                ("Data set", about.root),
                ("Pixels counted at", f"{about.size[1]} × {about.size[0]}"),
                ("Pixels of unknown colors", f"{validation.unknown:,}"),
            ]
        ),
        Heading("Worst frames", "frames"),
    ]
    if validation.unreadable:
        without = "it" if validation.unreadable == 1 else "them"
        count = counted(validation.unreadable, "frame")
        blocks.append(Paragraph(f"{count} can't be read, so without {without}.", "fails"))
    if pictures:
        how = (
            "From left to right: the image, its label, and what the network predicts, at the network's size."
        )
        blocks += [Paragraph(f"{how} Black is a color of no class.", "dim"), *pictures]
    else:
        blocks.append(Paragraph(f"No pictures: {why or 'no frame could be read'}.", "dim"))
    if charts := _charts(validation, rated):
        blocks += [Heading("Charts", "charts"), *charts]
    blocks += [Heading("Numbers", "numbers"), *_tables(validation, rated)]
    if unreadable:
        causes = tuple(NamedText(label, cause) for label, cause in unreadable)
        blocks += [Heading("Frames that can't be read", "unreadable"), Facts(causes, short=False)]
    title = "A trained network over labelled frames"
    return document(title, "Assay validation", blocks, footer=_VALIDATION_FOOTER, pictures=True)


def _lead(validation: Validation) -> str:
    frames = f"{counted(validation.validated, 'frame')} of {counted(validation.scenes, 'scene')}"
    if validation.mean_iou is None or validation.pixel_accuracy is None:
        return f"{frames}: no label has a class of this network, so no figure is defined."
    mean = NamedShare("", validation.mean_iou, validation.mean_iou_low, validation.mean_iou_high)
    accuracy = NamedShare(
        "", validation.pixel_accuracy, validation.pixel_accuracy_low, validation.pixel_accuracy_high
    )
    worst = min((_share(c) for c in validation.classes if c.iou is not None), key=lambda share: share.value)
    return (
        f"Mean IoU {mean.words()} over {frames}; pixel accuracy {accuracy.words()}. "
        f"The worst class is {worst.name}: IoU {figures.percent(worst.value)}."
    )


def _share(rated: ClassResult) -> NamedShare:
    return NamedShare(rated.name, rated.iou or 0.0, rated.low, rated.high)


def _charts(validation: Validation, rated: Sequence[ClassResult]) -> list[Chart]:
    if not rated:
        return []
    ordered = sorted(map(_share, rated), key=lambda share: -share.value)
    intervals = any(share.low is not None for share in ordered)
    more = ", with 95 % intervals over scenes" if intervals else "; no intervals: they need 8 scenes"
    matrix = ConfusionMatrix(validation.about.names, validation.matrix)
    return [
        share_bars("iou", f"IoU of each class{more}", "intersection over union", ordered),
        matrix_chart(matrix, "Predicted class for each true class, in % of its pixels"),
    ]


def _tables(validation: Validation, rated: Sequence[ClassResult]) -> list[Table]:
    ordered = sorted(map(_share, rated), key=lambda share: share.value)
    rows = [TableRow((share.name, share.words())) for share in ordered]
    rows += [TableRow((c.name, "in no label")) for c in validation.classes if c.iou is None]
    tables = [
        Table("Classes, the worst first", ("", "IoU"), (TableBody("", tuple(rows)),), frozenset({0, 1}))
    ]
    for column, groups in validation.by_column():
        more = f", {MOST_ROWS} of them" if len(groups) > MOST_ROWS else ""
        caption = f"By {column}, the worst first{more}"
        body = TableBody("", tuple(map(_group_row, groups[:MOST_ROWS])))
        tables.append(Table(caption, ("", "frames", "mean IoU", "pixel accuracy"), (body,)))
    return tables


def _group_row(group: GroupResult) -> TableRow:
    shares = (group.mean_iou, group.pixel_accuracy)
    texts = (figures.NONE if share is None else figures.percent(share) for share in shares)
    return TableRow((group.value or "(none)", f"{group.frames:,}", *texts))


def _worst(
    validation: Validation, checkpoint: Path, source: str | PathLike[str] | None, device: str
) -> Iterator[Pictures]:
    """Image, label and prediction of each of the worst frames."""
    from assay_payloads.datasets.places import PlaceError
    from assay_payloads.training.validator import CheckpointError, Setup, pictures

    about = validation.about
    data = about.root if source is None else str(source)
    setup = Setup(
        str(checkpoint),
        about.checkpoint,
        about.manifest,
        data,
        about.names,
        about.size,
        1,
        1,
        device,
        about.layout,
    )
    try:
        drawn = list(pictures(setup, [(frame.label, frame.image) for frame in validation.worst]))
    except CheckpointError as error:
        raise InputError(str(error)) from None
    except PlaceError as error:
        raise HostError(str(error)) from None
    for frame, arrays in zip(validation.worst, drawn, strict=True):
        if arrays is None:
            continue
        titles = ("image", "label", "prediction")
        shown = tuple(
            _picture(f"{frame.label}: {title}", array) for title, array in zip(titles, arrays, strict=True)
        )
        yield Pictures(frame.label, _describe_frame(frame), shown)


def _describe_frame(frame: FrameResult) -> str:
    iou = "mean IoU not defined" if frame.mean_iou is None else f"mean IoU {figures.percent(frame.mean_iou)}"
    return f"{iou}, entropy {frame.entropy_bits:.2f} bits"


def _picture(caption: str, pixels: Any) -> Picture:
    """A picture of pixels (height × width × 3, uint8)."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((WIDEST, WIDEST))
    kept = io.BytesIO()
    image.save(kept, "JPEG", quality=QUALITY)
    return Picture(caption, kept.getvalue())


def _overlaid(root: Path, frame: ChosenFrame) -> Pictures:
    """A frame's image, and the image under the colors of its label."""
    import numpy as np

    try:
        image, label = _small(root, frame.image), _small(root, frame.label)
    except (OSError, SyntaxError, ValueError) as error:
        return Pictures(frame.label, f"can't be read: {error}", ())
    if image.shape != label.shape:
        sizes = f"{label.shape[1]} × {label.shape[0]} and {image.shape[1]} × {image.shape[0]}"
        return Pictures(frame.label, f"label and image differ in size: {sizes}", ())
    blended = (image * (1 - OVERLAY) + label * OVERLAY).astype(np.uint8)
    both = (_picture(f"{frame.label}: image", image), _picture(f"{frame.label}: label", blended))
    return Pictures(frame.label, "", both)


def _small(root: Path, name: str) -> Any:
    """An image's pixels, at most as wide as a picture of the page.

    Raises ValueError if it is outside the data set or claims too many pixels, and what decoding raises.
    """
    import numpy as np
    from PIL import Image

    from assay_payloads.datasets.label_images import MOST_PIXELS

    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise ValueError("it is a link out of the data set")
    with path.open("rb") as file, Image.open(file) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"it claims {image.width} × {image.height} pixels")
        factor = max(1, image.width // WIDEST)
        size = -(-image.width // factor), -(-image.height // factor)
        if image.mode == "L":  # ids of classes, which have no mean
            return _id_colors()[np.asarray(image.resize(size, Image.Resampling.NEAREST))]
        return np.asarray(image.convert("RGB").reduce(factor))


def _id_colors() -> Any:
    """A color for each of 256 ids (256 × 3, uint8), far apart for ids next to each other."""
    import colorsys

    import numpy as np

    golden = 0.61803398875
    colors = [colorsys.hsv_to_rgb(n * golden % 1, 0.65, 0.95 - 0.35 * (n % 2)) for n in range(256)]
    return (np.array(colors) * 255).astype(np.uint8)


def _check_pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InputError("pictures need Pillow: install it with pip install 'cluster-assay[data]'") from None

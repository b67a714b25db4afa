"""Pages with pictures of frames: those of a query, and the worst ones of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from assay.errors import HostError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from assay.data.validation import FrameResult, Validation
    from assay.report.charts.classes import NamedShare
    from assay.report.page.validation import FramePictures, Picture
    from assay_payloads.datasets.manifest import ChosenFrame, Manifest

MOST_PICTURES: Final = 120  # frames of a query's page: about 3 MB
WIDEST: Final = 320  # pixels of a picture
QUALITY: Final = 80  # of JPEG
OVERLAY: Final = 0.5  # how much of a label covers its image


def query_page(manifest: Manifest, page: str | PathLike[str]) -> int:
    """Write a page with pictures of chosen frames, like `assay data query --page`; the number of them.

    At most 120 frames are shown, evenly spread over the manifest. What can't be read is named in its place.

    Raises InputError without Pillow or the data set's directory, HostError if the page can't be written.
    """
    from pathlib import Path

    from assay.durable import deliver
    from assay.report.page.validation import frames_html
    from assay.units import human

    pictures, why = frame_pictures(manifest)
    if why:
        raise InputError(why)
    about = [("Data set", manifest.root), ("Digest", manifest.digest[:12])]
    about.append(("Size", human(float(manifest.bytes), "B")))
    text = frames_html(manifest.query, len(manifest.frames), pictures, about)
    deliver(Path(page), text.encode(), option="--page")
    return len(pictures)


def frame_pictures(manifest: Manifest, most: int = MOST_PICTURES) -> tuple[list[FramePictures], str]:
    """Pictures of at most so many frames, evenly spread over the manifest; and why there are none, or ""."""
    from pathlib import Path

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
    from pathlib import Path

    from assay.durable import deliver
    from assay.report.page.validation import html

    try:
        _check_pillow()
        pictures, why = [*_worst(validation, Path(checkpoint), source, device)], ""
    except InputError as error:
        pictures, why = [], str(error)
    deliver(Path(page), html(_report(validation, pictures, why)).encode(), option="--page")


def _report(validation: Validation, pictures: list[FramePictures], why: str) -> Any:
    from assay.records import ConfusionMatrix
    from assay.report.page.validation import GroupScores, ValidationReport

    about = validation.about
    facts = [
        ("Checkpoint", f"{about.checkpoint[:12]}, step {about.step:,}"),
        ("Frames", f"{about.manifest[:12]}: {about.query}"),
        ("Data set", about.root),
        ("Pixels counted at", f"{about.size[1]} × {about.size[0]}"),
        ("Pixels of unknown colors", f"{validation.unknown:,}"),
    ]
    groups = [
        GroupScores(group.column, group.value, group.frames, group.mean_iou, group.pixel_accuracy)
        for group in validation.groups
    ]
    classes = [
        share
        for class_result in validation.classes
        if (share := _share(class_result.name, class_result.iou, class_result.low, class_result.high))
    ]
    return ValidationReport(
        title="A trained network over labelled frames",
        frames=validation.validated,
        scenes=validation.scenes,
        mean_iou=_share("mean IoU", validation.mean_iou, validation.mean_iou_low, validation.mean_iou_high),
        pixel_accuracy=_share(
            "pixel accuracy",
            validation.pixel_accuracy,
            validation.pixel_accuracy_low,
            validation.pixel_accuracy_high,
        ),
        classes=classes,
        absent=[class_result.name for class_result in validation.classes if class_result.iou is None],
        matrix=ConfusionMatrix(about.names, validation.matrix),
        groups=groups,
        unreadable_count=validation.unreadable,
        unreadable=validation.unreadable_frames,
        pictures=pictures,
        no_pictures=why or "no frame could be read",
        about=facts,
    )


def _share(name: str, value: float | None, low: float | None, high: float | None) -> NamedShare | None:
    from assay.report.charts.classes import NamedShare

    return None if value is None else NamedShare(name, value, low, high)


def _worst(
    validation: Validation, checkpoint: Path, source: str | PathLike[str] | None, device: str
) -> Iterator[FramePictures]:
    """Image, label and prediction of each of the worst frames."""
    from assay.report.page.validation import FramePictures
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
        yield FramePictures(frame.label, _describe_frame(frame), shown)


def _describe_frame(frame: FrameResult) -> str:
    from assay.report import figures

    iou = "mean IoU not defined" if frame.mean_iou is None else f"mean IoU {figures.percent(frame.mean_iou)}"
    return f"{iou}, entropy {frame.entropy_bits:.2f} bits"


def _picture(caption: str, pixels: Any) -> Picture:
    """A picture of pixels (height × width × 3, uint8)."""
    import io

    from PIL import Image

    from assay.report.page.validation import Picture

    image = Image.fromarray(pixels)
    image.thumbnail((WIDEST, WIDEST))
    kept = io.BytesIO()
    image.save(kept, "JPEG", quality=QUALITY)
    return Picture(caption, kept.getvalue())


def _overlaid(root: Path, frame: ChosenFrame) -> FramePictures:
    """A frame's image, and the image under the colors of its label."""
    import numpy as np

    from assay.report.page.validation import FramePictures

    try:
        image, label = _small(root, frame.image), _small(root, frame.label)
    except (OSError, SyntaxError, ValueError) as error:
        return FramePictures(frame.label, f"can't be read: {error}", ())
    if image.shape != label.shape:
        sizes = f"{label.shape[1]} × {label.shape[0]} and {image.shape[1]} × {image.shape[0]}"
        return FramePictures(frame.label, f"label and image differ in size: {sizes}", ())
    blended = (image * (1 - OVERLAY) + label * OVERLAY).astype(np.uint8)
    both = (_picture(f"{frame.label}: image", image), _picture(f"{frame.label}: label", blended))
    return FramePictures(frame.label, "", both)


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
        raise InputError("pictures need Pillow: install it with pip install 'assay[data]'") from None

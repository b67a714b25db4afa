"""A trained network over all frames of a manifest: computed where there are workers, added up here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.data.parallel import Workers, mapped
from assay.data.questions import ABOUT_CATALOG, CATALOG, CATALOG_VARIABLE
from assay.data.validated_frames import reduced
from assay.data.validation import (
    GroupResult,
    Validation,
    ValidationAbout,
    ValidationDirectory,
    ValidationProgress,
    chunks_of_log,
    opened,
)
from assay.errors import EXIT_OK, EXIT_WORSE, HostError, InputError, Problem
from assay.frame_manifest import reading_manifest
from assay.inputs import unreadable
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.ray_job import ray_job
from assay.questions.question import (
    Answer,
    Count,
    FileText,
    Question,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.systems import kubernetes_options
from assay.questions.values import File, Folder, Location, PresentPath
from assay.units import counted, rough_seconds
from assay.view import figures
from assay.view.blocks import Block, Paragraph
from assay_payloads.datasets.chunks import ManifestChunks
from assay_payloads.datasets.frame_files import WITH_PIXELS, without_pixels

if TYPE_CHECKING:
    from assay_payloads.datasets.manifest import ChosenFrame
    from assay_payloads.training.validator import Setup

CHUNK_FRAMES, BATCH_SIZE = 64, 4
MOST_NAMED, MOST_GROUPS = 5, 20


def _progress(done: ValidationProgress) -> str:
    left = ""
    if done.computed_frames:
        rest = done.seconds / done.computed_frames * (done.frames - done.done_frames)
        left = f", {done.computed_frames / done.seconds:.1f} frames/s, {rough_seconds(rest)} left"
    return f"{done.done_frames:,} of {done.frames:,} frames{left}"


@question
class ValidateData(Question):
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

    checkpoint: File = argument()
    manifest: File = argument()
    into: Folder = option("Directory that keeps each chunk, and the result.", positional=True)
    source: Location | None = option(
        "The data set's directory, or s3://BUCKET/PREFIX.  [default: as in the manifest]",
        default=None,
        names=("--from",),
        metavar="PLACE",
    )
    workers: Count | None = option("Workers at once.  [default: one per CPU]", default=None)
    ray: str | None = option(
        "A Ray cluster: auto, HOST:PORT, ray://HOST:PORT, or local.", default=None, metavar="ADDRESS"
    )
    runs: tuple[PresentPath, ...] = option(
        "Take the chunks that a run of `segmentation-validation` has printed.", default=(), names=("--run",)
    )
    by: tuple[str, ...] = option(
        "Group frames by a column of the catalog, too.", default=(), metavar="COLUMN"
    )
    catalog: File = option(ABOUT_CATALOG, default=CATALOG, variable=CATALOG_VARIABLE)
    batch_size: Count = option("Frames at once.", default=BATCH_SIZE)
    chunk_frames: Count = option("Frames of a chunk.", default=CHUNK_FRAMES)
    device: Literal["auto", "cpu", "cuda"] = option("auto: GPUs where there are any.", default="auto")
    page: Path | None = option("Write a page with pictures.", default=None, output=True)
    render: Literal["rayjob"] | None = option(
        "Print a manifest for KubeRay, and do nothing.", default=None, output=True
    )
    system: str | None = option(
        "With --render: the system on Kubernetes whose image and volumes it gets.", default=None, output=True
    )
    systems: File | None = option("File with that system.", default=None, output=True)
    tell: Callable[[ValidationProgress], None] | None = progress_line(_progress, default=None)

    def __post_init__(self) -> None:
        if self.render is not None and self.system is None:
            raise ValueError("--render needs --system: a system on Kubernetes with image and volumes")

    def answer(self) -> ValidatedNetwork | FileText:
        """What the network makes of the frames, or the RayJob."""
        if self.render is None or self.system is None:
            return ValidatedNetwork(self.validation(), fspath(self.into), self.page)
        more = ["--batch-size", str(self.batch_size), "--chunk-frames", str(self.chunk_frames)]
        more += ["--device", self.device]
        more += ["--from", str(self.source)] if self.source is not None else []
        more += [word for column in self.by for word in ("--by", column)]
        more += ["--catalog", str(self.catalog)] if self.by else []
        paths = (str(self.checkpoint), str(self.manifest), str(self.into))
        system, systems, workers = self.system, self.systems, self.workers or 1
        return FileText(validation_rayjob(*paths, system=system, systems=systems, workers=workers, more=more))

    def write(self, answer: ValidatedNetwork | FileText) -> Answer:
        """The page."""
        if self.page is not None and isinstance(answer, ValidatedNetwork):
            from assay.data.pages import validation_page

            validation = answer.validation
            validation_page(validation, self.checkpoint, self.page, source=self.source, device=self.device)
        return answer

    def validation(self) -> Validation:
        """The counts. Raises InputError for a wrong input, HostError if workers are killed repeatedly."""
        begin = time.monotonic()
        chunks = manifest_chunks(Path(self.manifest), self.chunk_frames)
        data = str(self.source) if self.source is not None else chunks.about.root
        if self.batch_size < 1:
            raise InputError(f"a batch of {self.batch_size} frames: expected at least 1")
        setup, step = _setup(Path(self.checkpoint), chunks, data, self.batch_size, self.device)
        about = _about(setup, chunks, step)
        so_far = ValidationProgress(len(chunks), chunks.count)
        report = self.tell or (lambda _: None)
        with opened(Path(self.into), about) as directory:
            _take_from_logs(directory, self.runs)
            _count_done(so_far, directory, chunks)
            report(so_far)
            for number, text in _computed(setup, directory, chunks, self.workers, self.ray):
                directory.keep(number, text)
                so_far.computed_frames += _length(chunks, number)
                _count_done(so_far, directory, chunks)
                so_far.seconds = time.monotonic() - begin
                report(so_far)
            result = reduced(directory, chunks, by={column: Path(self.catalog) for column in self.by})
            directory.keep_result(result)
        return result


validate_data = function(ValidateData, ValidateData.validation)


@dataclass(frozen=True)
class ValidatedNetwork(Answer):
    """A validation, its directory and its page."""

    validation: Validation
    into: str
    page: Path | None

    @property
    def exit_code(self) -> int:
        """1 if a frame can't be read."""
        return EXIT_WORSE if self.validation.unreadable else EXIT_OK

    def view(self) -> Iterator[Block]:
        """The figures, those of each class and group, and what can't be read."""
        v = self.validation
        mean = f"{_share(v.mean_iou)}{_interval(v.mean_iou_low, v.mean_iou_high)}"
        bounds = _interval(v.pixel_accuracy_low, v.pixel_accuracy_high)
        yield Paragraph(f"mean IoU {mean}; pixel accuracy {_share(v.pixel_accuracy)}{bounds}")
        frames = f"{counted(v.validated, 'frame')} of {counted(v.scenes, 'scene')}"
        network = f"network of step {v.about.step:,}, digest {v.about.manifest[:12]}"
        yield Paragraph(f"{frames}, {network}")
        for rated in sorted((c for c in v.classes if c.iou is not None), key=lambda c: c.iou or 0.0):
            yield Paragraph(f"  {_share(rated.iou):>8}{_interval(rated.low, rated.high)}  {rated.name}")
        if absent := [rated.name for rated in v.classes if rated.iou is None]:
            yield Paragraph(f"in no label, so without a figure: {', '.join(absent)}")
        for column, groups in v.by_column():
            if len(groups) > 1:
                yield from self._groups(column, groups)
        if v.mean_iou_low is None:
            yield Paragraph("no intervals: they need at least 8 scenes")
        if v.unreadable:
            yield Paragraph(f"{counted(v.unreadable, 'frame')} can't be read and don't count:")
            for label, why in v.unreadable_frames[:MOST_NAMED]:
                yield Paragraph(f"  {label}: {why}")
        kept = f"{self.into}: frames.parquet, result.json"
        yield Paragraph(kept if self.page is None else f"{kept}; {self.page}")

    def _groups(self, column: str, groups: Sequence[GroupResult]) -> Iterator[Block]:
        yield Paragraph(f"mean IoU by {column}")
        for group in groups[:MOST_GROUPS]:
            yield Paragraph(f"  {_share(group.mean_iou):>8}  {group.value}, {group.frames:,} frames")
        if (better := len(groups) - MOST_GROUPS) > 0:
            most = "more than " if column in self.validation.more_groups else ""
            yield Paragraph(f"  and {most}{better:,} better ones")

    def document(self) -> dict[str, Any]:
        """The validation."""
        return self.validation.document()


def _share(value: float | None) -> str:
    return "not defined" if value is None else figures.percent(value)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({figures.percent(low)} to {figures.percent(high)})"


def manifest_chunks(path: Path, chunk_frames: int) -> ManifestChunks:
    """The frames of a manifest in chunks. Raises InputError if it is damaged, empty, or of another layout."""
    if chunk_frames < 1:
        raise InputError(f"chunks of {chunk_frames} frames: expected at least 1")
    with reading_manifest(path):
        chunks = ManifestChunks(path, chunk_frames)
    first = chunks.frames(0) if chunks.count else []
    if what := without_pixels(chunks.about.layout, first) or ("" if first else "no frame"):
        raise InputError(
            f"{path}: found {what}; `segmentation` learns from label images of {', '.join(WITH_PIXELS)}"
        )
    return chunks


def _setup(
    checkpoint: Path, chunks: ManifestChunks, data: str, batch_size: int, device: str
) -> tuple[Setup, int]:
    """What workers need to know, and the steps that the network was trained for."""
    try:
        from assay_payloads.datasets.feed import UnreadableSampleError
        from assay_payloads.datasets.places import PlaceError
        from assay_payloads.training import validator
    except ImportError as error:
        raise InputError(
            f"validating needs {error.name}: install it with pip install 'cluster-assay[training]'"
        ) from None
    try:
        setup = validator.setup(checkpoint, chunks, data, batch_size=batch_size, device=device)
        return setup, validator.trained(checkpoint).step
    except validator.CheckpointError as error:
        raise InputError([Problem(str(checkpoint), str(error))]) from None
    except UnreadableSampleError as error:
        raise InputError(f"{error}; name the data set's directory with --from") from None
    except PlaceError as error:
        raise HostError(str(error)) from None
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _about(setup: Setup, chunks: ManifestChunks, step: int) -> ValidationAbout:
    return ValidationAbout(
        setup.key,
        setup.sha256,
        step,
        chunks.about.digest,
        chunks.about.query,
        setup.data,
        setup.names,
        setup.size,
        chunks.count,
        setup.chunk_frames,
        setup.batch_size,
        setup.layout,
    )


def _computed(
    setup: Setup,
    directory: ValidationDirectory,
    chunks: ManifestChunks,
    workers: int | None,
    ray: str | None,
) -> Iterator[tuple[int, str]]:
    """Chunks that were missing, as they are done."""
    from assay_payloads.datasets.places import PlaceError
    from assay_payloads.training.validator import CheckpointError, device_of, validated

    missing = directory.missing()
    if not missing:
        return
    gpus = 0.0
    if setup.device != "cpu" and ray is not None:
        gpus = 1.0 if setup.device == "cuda" or device_of(setup.device).type == "cuda" else 0.0
    tasks: Iterable[tuple[Setup, int, list[ChosenFrame]]] = (
        (setup, number, chunks.frames(number)) for number in missing
    )
    try:
        yield from mapped(validated, tasks, Workers(workers, ray, gpus))
    except CheckpointError as error:
        raise InputError(str(error)) from None
    except PlaceError as error:
        raise HostError(f"{error}. What finished is kept: the same command resumes") from None


def _length(chunks: ManifestChunks, number: int) -> int:
    return min(chunks.size, chunks.count - number * chunks.size)


def _count_done(so_far: ValidationProgress, directory: ValidationDirectory, chunks: ManifestChunks) -> None:
    so_far.done_chunks = len(directory.done)
    last = len(chunks) - 1
    short = chunks.size - _length(chunks, last) if last in directory.done else 0
    so_far.done_frames = so_far.done_chunks * chunks.size - short


def _take_from_logs(directory: ValidationDirectory, runs: Sequence[str | PathLike[str]]) -> None:
    """Keep the chunks that the logs of runs hold; what belongs to another validation is an error."""
    for run in runs:
        logs = sorted(Path(run).rglob("rank-*.log")) if Path(run).is_dir() else [Path(run)]
        taken = 0
        for log in logs:
            for chunk in chunks_of_log(log, directory):
                taken += 1
                if chunk.chunk not in directory.done:
                    directory.keep(chunk.chunk, chunk.text())
        if not taken:
            raise InputError(
                f"{run}: has no chunk of this validation; expected the run of `segmentation-validation` with "
                "the same checkpoint, frames, batch_size and chunk_frames"
            )


def validation_rayjob(
    checkpoint: str,
    manifest: str,
    into: str,
    *,
    system: str,
    systems: str | PathLike[str] | None = None,
    workers: int = 1,
    more: Sequence[str] = (),
) -> str:
    """The YAML of a RayJob for KubeRay that validates, like `assay data validate … --render rayjob`.

    checkpoint, manifest, into  paths in the pods, on volumes of the system
    system                      on Kubernetes: its image, volumes, resources, namespace, user
    more                        further words of the command

    Raises InputError for another launcher, or options that a RayJob can't have.
    """
    options = kubernetes_options(system, systems)
    if outside := [path for path in (checkpoint, manifest, into) if not path.startswith("/")]:
        raise InputError(f"{', '.join(outside)}: a pod needs absolute paths, on a volume of {system}")
    argv = ["assay", "data", "validate", checkpoint, manifest, "--into", into, "--ray", "auto"]
    argv += ["--workers", str(workers), *more]
    name = f"assay-validate-{hashlib.sha256(repr(argv).encode()).hexdigest()[:10]}"
    return as_yaml([ray_job(name, argv, workers, options)])

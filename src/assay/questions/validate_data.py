"""A trained network over many labelled frames: computed where there are workers, added up here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import HostError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike
    from pathlib import Path

    from assay.data.validation import Validation, ValidationAbout, ValidationDirectory, ValidationProgress
    from assay_payloads.datasets.chunks import ManifestChunks
    from assay_payloads.datasets.manifest import ChosenFrame
    from assay_payloads.training.validator import Setup

CHUNK_FRAMES, BATCH_SIZE = 64, 4


def validate_data(
    checkpoint: str | PathLike[str],
    manifest: str | PathLike[str],
    into: str | PathLike[str],
    *,
    source: str | PathLike[str] | None = None,
    workers: int | None = None,
    ray: str | None = None,
    runs: Sequence[str | PathLike[str]] = (),
    by: Sequence[str] = (),
    catalog: str | PathLike[str] = "catalog.duckdb",
    batch_size: int = BATCH_SIZE,
    chunk_frames: int = CHUNK_FRAMES,
    device: str = "auto",
    tell: Callable[[ValidationProgress], None] | None = None,
) -> Validation:
    """Validate a network over the frames of a manifest, like `assay data validate`.

    checkpoint    that a training of `segmentation` saved
    into          a directory: what is kept there is not computed again
    source        the data set's directory, or its address in a store; None: the one in the manifest
    workers, ray  where chunks are computed; see `assay.data.parallel.Workers`
    runs          logs of runs of `segmentation-validation`, whose chunks are taken instead of computed
    by            columns of the catalog that frames are grouped by, besides scene and camera
    tell          takes the state so far, again and again

    Raises InputError for a damaged manifest or checkpoint, another validation in the directory, or a library
    that is missing; HostError if workers are killed again and again, a store fails, or a file can't be
    written.
    """
    import time
    from pathlib import Path

    from assay.data.validated_frames import reduced
    from assay.data.validation import ValidationProgress, opened

    begin = time.monotonic()
    chunks = manifest_chunks(Path(manifest), chunk_frames)
    data = str(source) if source is not None else chunks.about.root
    if batch_size < 1:
        raise InputError(f"a batch of {batch_size} frames: expected at least 1")
    setup, step = _setup(Path(checkpoint), chunks, data, batch_size, device)
    about = _about(setup, chunks, step)
    so_far = ValidationProgress(len(chunks), chunks.count)
    report = tell or (lambda _: None)
    with opened(Path(into), about) as directory:
        _take_from_logs(directory, runs)
        _progress(so_far, directory, chunks)
        report(so_far)
        for number, text in _computed(setup, directory, chunks, workers, ray):
            directory.keep(number, text)
            so_far.computed_frames += _length(chunks, number)
            _progress(so_far, directory, chunks)
            so_far.seconds = time.monotonic() - begin
            report(so_far)
        result = reduced(directory, chunks, by={column: Path(catalog) for column in by})
        directory.keep_result(result)
    return result


def manifest_chunks(path: Path, chunk_frames: int) -> ManifestChunks:
    """The frames of a manifest in chunks. Raises InputError if it is damaged, empty, or of another layout."""
    from assay.errors import Problem
    from assay.inputs import unreadable
    from assay_payloads.datasets.chunks import ManifestChunks
    from assay_payloads.datasets.frame_files import WITH_PIXELS, without_pixels
    from assay_payloads.datasets.manifest import ManifestError

    if chunk_frames < 1:
        raise InputError(f"chunks of {chunk_frames} frames: expected at least 1")
    try:
        chunks = ManifestChunks(path, chunk_frames)
    except ManifestError as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise InputError([Problem(where, error.what)]) from None
    except OSError as error:
        raise unreadable(path, error) from error
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
    from assay.errors import Problem
    from assay.inputs import unreadable

    try:
        from assay_payloads.datasets.feed import UnreadableSampleError
        from assay_payloads.datasets.places import PlaceError
        from assay_payloads.training import validator
    except ImportError as error:
        raise InputError(
            f"validating needs {error.name}: install it with pip install 'assay[training]'"
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
    from assay.data.validation import ValidationAbout

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
    from assay.data.parallel import Workers, mapped
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


def _progress(so_far: ValidationProgress, directory: ValidationDirectory, chunks: ManifestChunks) -> None:
    so_far.done_chunks = len(directory.done)
    last = len(chunks) - 1
    short = chunks.size - _length(chunks, last) if last in directory.done else 0
    so_far.done_frames = so_far.done_chunks * chunks.size - short


def _take_from_logs(directory: ValidationDirectory, runs: Sequence[str | PathLike[str]]) -> None:
    """Keep the chunks that the logs of runs hold; what belongs to another validation is an error."""
    from pathlib import Path

    from assay.data.validation import chunks_of_log

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
    import hashlib

    from assay.launch.kubernetes.objects.manifests import as_yaml
    from assay.launch.kubernetes.objects.ray_job import ray_job
    from assay.questions.systems import kubernetes_options

    options = kubernetes_options(system, systems)
    if outside := [path for path in (checkpoint, manifest, into) if not path.startswith("/")]:
        raise InputError(f"{', '.join(outside)}: a pod needs absolute paths, on a volume of {system}")
    argv = ["assay", "data", "validate", checkpoint, manifest, "--into", into, "--ray", "auto"]
    argv += ["--workers", str(workers), *more]
    name = f"assay-validate-{hashlib.sha256(repr(argv).encode()).hexdigest()[:10]}"
    return as_yaml([ray_job(name, argv, workers, options)])

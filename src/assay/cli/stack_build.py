"""`assay stack build`: a container file built, tested and pushed, or the objects that do it on a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from assay.cli import named_values, options
from assay.errors import EXIT_OK, EXIT_WORSE, InputError, Problem
from assay.questions.values import texts

if TYPE_CHECKING:
    from assay.stacks.build import BuiltStack

_STEP = re.compile(r"(?:STEP|Step) (\d+)/(\d+)")
# options without effect on objects, and on a build here
_HERE = {
    "engine": "--engine",
    "tls_verify": "--no-tls-verify",
    "context": "--context",
    "timeout_s": "--timeout",
    "keep_failed": "--keep-failed",
    "build_options": "--",
}
_ELSEWHERE = {
    "namespace": "--namespace",
    "push_login": "--push-login",
    "requests": "--request",
    "limits": "--limit",
}


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("build_options", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", required=True, metavar="NAME", help="Name of the image here, or of the objects.")
@click.option(
    "--engine",
    type=click.Choice(["podman", "buildah"]),
    default="podman",
    show_default=True,
    help="What builds. It has the credentials of registries: log in with it.",
)
@click.option(
    "--push",
    metavar="REGISTRY/NAME[:TAG]",
    help="Push the image there once it has passed the test; without TAG, under the beginning of its ID.",
)
@click.option(
    "--tls-verify/--no-tls-verify", default=True, help="Whether the registry must have a valid certificate."
)
@click.option(
    "--context",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory that FILE may copy from. [default: none]",
)
@click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Module that must be importable. [default: those that FILE checks, else one of each package that no "
    "other package requires]",
)
@click.option(
    "--timeout",
    "timeout_s",
    callback=options.duration,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="End a build, a test or a push that takes longer.",
)
@click.option(
    "--keep-failed",
    is_flag=True,
    help="Keep the layers that were built before a step or the test failed.",
)
@click.option(
    "--render",
    type=click.Choice(["openshift", "kubernetes"]),
    help="Build nothing; print a BuildConfig and an ImageStream, or a Job, that build on a cluster.",
)
@click.option("--namespace", metavar="NAME", help="Namespace of the rendered objects.")
@click.option(
    "--push-login",
    metavar="NAME",
    help="Secret there with the registry's credentials, for rendered objects.",
)
@click.option(
    "--request",
    "requests",
    multiple=True,
    metavar="NAME=QUANTITY",
    callback=named_values.named(texts),
    help="What the rendered build requests, like memory=8Gi. [default: cpu=1, memory=4Gi]",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=QUANTITY",
    callback=named_values.named(texts),
    help="Limit of the rendered build, like memory=16Gi. [default: none]",
)
@options.JSON
def command(
    file: Path,
    build_options: tuple[str, ...],
    tag: str,
    engine: str,
    push: str | None,
    tls_verify: bool,
    context: Path | None,
    modules: tuple[str, ...],
    timeout_s: float,
    keep_failed: bool,
    render: str | None,
    namespace: str | None,
    push_login: str | None,
    requests: dict[str, str],
    limits: dict[str, str],
    as_json: bool,
) -> None:
    """Build the image of a container file, test it, and push it.

    The test runs in the image as a user ID that nobody has, with group 0, as OpenShift does: the modules can
    be imported, and HOME is writable. An image that fails is neither tagged nor pushed, and is removed. What
    follows `--` is for the engine's `build`. A build that was stopped, or took too long, continues with the
    same command, from the engine's layers.

    \b
    Examples:
      assay stack build locked/Containerfile --tag lab/stack:1
      assay stack build Containerfile --tag lab/stack:1 --push registry.lab:5000/stack:1
      assay stack build Containerfile --tag stack -- --volume ~/.config/pip/pip.conf:/etc/pip.conf:ro
      assay stack build Containerfile --tag stack --render openshift | oc apply -f -

    \b
    Exit codes: 0 built, tested, and pushed if requested; 1 the image does not pass the test; 4 FILE or an
    option can't be used; 5 the engine or the registry failed; 130 stopped: run again to continue.
    """
    from assay.stacks import build as build_stack_question

    _need_effect(_HERE if render else _ELSEWHERE, "with" if render else "without")
    if render is not None:
        from assay.launch.kubernetes.objects.manifests import as_yaml

        objects = build_stack_question.render_build(
            file,
            render,  # type: ignore[arg-type]  # click has checked it
            name=tag,
            push=push,
            secret=push_login,
            namespace=namespace,
            modules=modules,
            requests=requests,
            limits=limits,
        )
        if as_json:
            options.echo_json({"schema": "assay.stack-build/1", "objects": objects})
        else:
            click.echo(as_yaml(objects), nl=False)
        return
    with _steps() as on_line:
        built = build_stack_question.build_stack(
            file,
            tag=tag,
            engine=engine,
            push=push,
            verify_tls=tls_verify,
            context=context,
            modules=modules,
            options=build_options,
            timeout_s=timeout_s,
            keep_failed=keep_failed,
            on_line=on_line,
        )
    if as_json:
        options.echo_json(built.document())
    else:
        for line in _describe_build(built, push):
            click.echo(line)
    sys.exit(EXIT_OK if built.test.passed else EXIT_WORSE)


def _need_effect(without: Mapping[str, str], how: str) -> None:
    """Raises InputError with each option that was given and would do nothing."""
    context = click.get_current_context()
    flags = [context.get_parameter_source(name) is not ParameterSource.DEFAULT for name in without]
    named = [label for label, is_given in zip(without.values(), flags, strict=True) if is_given]
    if named:
        raise InputError([Problem(name, f"it has no effect {how} --render; leave it out") for name in named])


def _describe_build(built: BuiltStack, push: str | None) -> Iterator[str]:
    from assay.stacks.engines import SMOKE_TEST_USER
    from assay.units import counted, human, human_seconds
    from assay.view.terminal import printable

    if built.pushed is not None:
        yield f"Use image: {built.pushed}"
    elif built.test.passed:
        yield f"Use image: {built.tag}"
    else:
        also = ", nor pushed" if push else ""
        image = built.image.id[:12]
        yield f"Don't use {image}: it does not work as an arbitrary user. It is not tagged{also}."
    size = "" if built.image.size_bytes is None else f", {human(float(built.image.size_bytes), 'B')}"
    yield f"Built in {human_seconds(built.built_s)}{size}: {built.image.id}"
    yield from (printable(f"  {what}: {why}") for what, why in built.test.failed)
    if built.test.passed:
        modules = counted(len(built.test.modules), "module")
        yield f"As user {SMOKE_TEST_USER} HOME is writable, and {modules} can be imported."


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """The engine's steps: a bar with the time left on a terminal, else a line for each."""
    from assay.view.terminal import printable

    if not sys.stderr.isatty():
        yield lambda line: click.echo(printable(line), err=True) if _STEP.match(line) else None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from assay.cli.console import Console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Building", total=None)

        def on_line(line: str) -> None:
            if match := _STEP.match(line):
                bar.update(task, completed=int(match[1]) - 1, total=int(match[2]))

        yield on_line

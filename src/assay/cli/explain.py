"""`assay explain`: what a doubt means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from assay.cli.options import JSON, echo_json


@click.command()
@click.argument("code", required=False)
@JSON
def command(code: str | None, as_json: bool) -> None:
    """Explain what the doubt CODE means, its possible effect, and the remedy; without CODE, list all doubts.

    \b
    Examples:
      assay explain
      assay explain not-interleaved
      assay explain drift --json
    """
    from assay.questions.explain import explain

    explained = explain(code)
    if as_json:
        from assay.questions.explain import explain_document

        echo_json(explain_document(explained))
        return
    click.echo("\n".join(_all() if code is None else _page(code)))


def _all() -> Iterator[str]:
    """Each subject with its doubts, one line each."""
    from assay.analyse.doubts import KINDS, of_subject
    from assay.records import SUBJECTS

    width = max(map(len, KINDS))
    for subject, title in SUBJECTS.items():
        yield from ("" if subject != next(iter(SUBJECTS)) else "Doubts and their severity.\n", title)
        for kind in of_subject(subject):
            lines = textwrap.wrap(kind.means, 96 - width - 11)
            yield f"  {kind.code:{width}} {kind.severity:7} {lines[0]}"
            yield from (" " * (width + 11) + line for line in lines[1:])
    yield "\nFor details, run `assay explain CODE`."


def _page(code: str) -> Iterator[str]:
    from assay.analyse.doubts import KINDS
    from assay.analyse.doubts.rates import POWER, RUNS
    from assay.records import SEVERITIES

    it = KINDS[code]
    yield f"{code} ({it.severity}: {SEVERITIES[it.severity]})"
    parts = {"What": it.means, "Effect": it.effect, "Remedy": it.remedy, "Error rates": it.rates}
    for title, text in parts.items():
        if text:
            yield ""
            yield from textwrap.wrap(f"{title}: {text}", 96, subsequent_indent="  ")
    if code in POWER:
        detection = POWER[code]
        yield "\nRate, simulated" + " " * 43 + "".join(f"{f'n = {n}':>9}" for n in RUNS)
        for name, power in [
            (f"nothing wrong: {detection.clean}", detection.false_alarm),
            *detection.troubles(),
        ]:
            yield f"  {name:58}" + "".join(f"{power[n]:>9.1%}" for n in RUNS)

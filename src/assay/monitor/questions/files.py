"""Alert rules for Prometheus and dashboards for Grafana, as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from assay.durable import deliver
from assay.monitor import rules
from assay.monitor.dashboards import config_maps, dashboards
from assay.questions.question import Answer, FileText, Question, option, question
from assay.questions.values import Folder, ObjectName
from assay.view.blocks import Block, Paragraph


@question
class Rules(Question):
    """Print alert rules for what `assay monitor export` and NVIDIA's DCGM exporter serve.

    Each alert names the page that says what it means and what to check. docs/how-to/alerts.md states how
    often each fires without cause.

    \b
    Examples:
      assay monitor rules > /etc/prometheus/rules/assay.yaml
      assay monitor rules --kubernetes | kubectl apply -f -
    """

    has_json: ClassVar[bool] = False

    kubernetes: bool = option("As a PrometheusRule object of the Prometheus operator.", default=False)
    name: ObjectName = option("With --kubernetes: the object's name.", default="assay")

    def answer(self) -> FileText:
        """The rules."""
        return FileText(rules.prometheus_rule(self.name) if self.kubernetes else rules.rule_file())


@question
class Dashboards(Question):
    """Write dashboards for Grafana: GPUs, one run, fabric, results and verdicts, two runs, the DCGM exporter.

    \b
    Examples:
      assay monitor dashboards -o /var/lib/grafana/dashboards
      assay monitor dashboards --kubernetes --namespace monitoring | kubectl apply -f -
    """

    has_json: ClassVar[bool] = False

    output: Folder | None = option(
        "Folder for the JSON files.  [default: dashboards]", default=None, names=("-o", "--output")
    )
    kubernetes: bool = option("Print ConfigMaps for Grafana's sidecar instead.", default=False)
    namespace: ObjectName = option("With --kubernetes: theirs.", default="")

    def __post_init__(self) -> None:
        if self.kubernetes and self.output is not None:
            raise ValueError("--kubernetes prints, so it has no --output")
        if self.namespace and not self.kubernetes:
            raise ValueError("--namespace needs --kubernetes")

    def answer(self) -> FileText | WrittenFiles:
        """The ConfigMaps, or the files of the dashboards."""
        if self.kubernetes:
            return FileText(config_maps(self.namespace))
        folder = Path(self.output or "dashboards")
        return WrittenFiles(tuple(folder / f"assay-{name}.json" for name in dashboards()))

    def write(self, answer: FileText | WrittenFiles) -> Answer:
        """The dashboards."""
        if isinstance(answer, WrittenFiles):
            for path, text in zip(answer.files, dashboards().values(), strict=True):
                deliver(path, text.encode(), option="--output")
        return answer


@dataclass(frozen=True)
class WrittenFiles(Answer):
    """Files that were written."""

    files: tuple[Path, ...]

    def view(self) -> Iterator[Block]:
        """Their names."""
        yield from (Paragraph(str(file)) for file in self.files)

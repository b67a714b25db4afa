"""The JSON API, continued: histories, scaling, stacks, data sets, scores."""

from __future__ import annotations

from litestar import Router
from litestar.exceptions import NotFoundException

from assay.documents import curves, datasets, histories, scores, stacks
from assay.questions.datasets import class_shares
from assay.questions.history import history
from assay.questions.scale import scale
from assay.questions.score import score
from assay.questions.stack_knowledge import list_stacks, show_stack
from assay.web.json_api import refuse_unknown
from assay.web.queries import Group, Name, Required, RequiredNames, some
from assay.web.question_api import Document, answer, answering
from assay.web.site import Site


@answering("/history", "A metric over sessions, like `assay history --json`")
def metric_history(
    site: Site,
    metric: Required,
    suite: Name = None,
    benchmark: Name = None,
    system: Name = None,
    since: Name = None,
) -> Document:
    """Each history with its steps, and what changed there."""
    annotated = history(
        metric,
        suite=some(suite),
        benchmark=some(benchmark),
        system=some(system),
        since=some(since),
        runs=site.runs,
    )
    return answer(histories.document(metric, annotated))


@answering("/scale", "What more workers gain, like `assay scale --json`")
def scaling_curves(site: Site, run: RequiredNames, metric: Name = None, group: Group = None) -> Document:
    """Throughput, speed-up and efficiency over sizes, with conclusions."""
    return answer(curves.document(scale(run, metric=some(metric), group=group or None, runs=site.runs)))


@answering("/stacks", "Observed software stacks, like `assay stack list --json`")
def observed_stacks(site: Site, package: Name = None, workload: Name = None) -> Document:
    """The most recently observed first."""
    return answer(stacks.listing(list_stacks(package=some(package), workload=some(workload), runs=site.runs)))


@answering("/stack", "One software stack, like `assay stack show --json`")
def observed_stack(site: Site, stack: Required) -> Document:
    """By the beginning of its digest, or by runs that have it."""
    return answer(stacks.details(show_stack(stack, runs=site.runs)))


@answering("/data/classes", "Classes of a data set, like `assay data classes --json`")
def data_classes(site: Site, where: Name = None) -> Document:
    """How much of each class the frames have that satisfy a condition."""
    return answer(datasets.shares_document(*class_shares(some(where) or "", catalog=site.catalog)))


@answering(
    "/scores",
    "MLPerf logs by the rules of their round, like `assay score --json`",
)
def round_scores(site: Site, folder: Required) -> Document:
    """Of one of the folders that the server was started with."""
    path = site.folder(folder)
    if path is None:
        raise NotFoundException(f"There is no folder {folder} of MLPerf logs here.")
    return answer(scores.document(score(path), rules=False))


ROUTES = Router(
    "/api/v1",
    before_request=refuse_unknown,
    route_handlers=[
        metric_history, scaling_curves, observed_stacks, observed_stack, data_classes, round_scores,
    ],
)  # fmt: skip

"""A self-contained report page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote

from assay.errors import InputError
from assay.inputs import read_whole
from assay.questions.compare import MARGIN, Margin
from assay.questions.evidence import RunSet, run_sets, runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    form_of,
    function_of_many,
    option,
    question,
    read_value,
)
from assay.units import margin_of
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.records import Metric, Plan, Price, Result, Run, Scalar
    from assay.rundir.session import Session
    from assay.view.blocks import Block, Chart
    from assay.view.contents import Contents, Recipe, ReportedFact, RunTime
    from assay.view.sweep import SweepReport

Form = Literal["html", "markdown", "notebook"]
SUFFIXES = {"html": ".html", "markdown": ".md", "notebook": ".ipynb"}
MOST_VALUES = 3  # of a fact that one cell lists
MOST_COMMANDS = 24  # trials whose exact command a recipe shows, one of each kind


@question
class Report(Question):
    """Write a self-contained page about RUNs, or a notebook that asks the library for the same.

    It contains a recommendation, verdicts, charts, numbers, doubts, provenance and how to reproduce the runs.
    Names of machines and people are left out unless you use --with-identity; secrets are always hidden.

    RUNs are sessions, imported sets or `suite:system`; `assay show` shows them. The others are compared
    with the baseline, or else with the first; more than four sides without a baseline are ranked instead.
    The page needs no network and no other files. A notebook's cells have no outputs; run them to see the
    report, its charts and numbers. The last one fails if the answers are no longer the same.

    \b
    Examples:
      assay report quickstart
      assay report resnet50:bare-metal resnet50:openshift -o openshift.html
      assay report quickstart --format markdown -o -        for a pull request
      assay report quickstart -o quickstart.ipynb           a notebook that asks for the same
      assay report quickstart -o page.html --with-logs      the folder page-logs next to it
      assay report v3.0-ubuntu v3.1-openshift --margin 1%
      assay report sweep-nodes sweep-pairs                  slow nodes and links, as heat maps
    """

    references: tuple[str, ...] = argument(metavar="RUN…", parameters=("reference", "more"))
    output: Path | None = option(
        "File to write; `-` is standard output. [default: <suite>-<session> here]",
        default=None,
        names=("-o", "--output"),
        output=True,
    )
    format: Form | None = option(
        "By default, the output name's extension decides, or html.", default=None, output=True
    )
    with_logs: bool = option(
        "Copy each run's logs into a folder next to the page, and link them.", default=False, output=True
    )
    margin: Margin | None = option(MARGIN, default=None)
    baseline: str | None = option(
        "What to compare with. [default: the suite's, else the first of at most four]",
        default=None,
        metavar="SYSTEM",
    )
    with_identity: bool = option("Keep host names, user names, home directories and boot IDs.", default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        if self.with_logs and (self._form() != "html" or str(self.output) == "-"):
            raise ValueError("--with-logs creates a folder next to an HTML page: name the page with -o")
        self._form()

    def _form(self) -> Form:
        endings = {suffix: form for form, suffix in SUFFIXES.items()}
        return cast("Form", form_of(self.output, self.format, endings))

    def answer(self) -> Answer:
        """The report that the command writes."""
        return ReportFile(self.report())

    def report(self) -> RunsReport:
        """A recommendation, verdicts, charts, numbers, doubts and how to reproduce.

        Raises InputError if a name matches nothing, or the references share runs.
        """
        from assay.questions.sweep_pages import is_sweep, sweep_of

        width = read_value("margin", self.margin, margin_of)
        directory = runs_directory(self.runs)
        sets = run_sets(directory, dict.fromkeys(self.references))
        results = [result for run_set in sets for result in run_set.results]
        newest = max((result.run for result in results), key=lambda run: run.session)
        about: Contents | SweepReport
        if is_sweep(sets, directory):
            if self.baseline is not None:
                raise InputError("a sweep's nodes are compared with each other: omit --baseline")
            about = sweep_of(sets, directory, width, _recipes({"": results}, directory))
        else:
            about = _gathered(sets, directory, width, self.baseline, with_identity=self.with_identity)
        options = {"margin": self.margin, "baseline": self.baseline}
        return RunsReport(f"{newest.suite}-{newest.session}", directory, about, self.references, options)

    def write(self, answer: ReportFile) -> ReportFile | bytes:
        """The page, and its logs next to it."""
        from assay.durable import deliver

        report, form = answer.report, self._form()
        path = self.output or Path(f"{report.name}{SUFFIXES[form]}")
        text = (report.with_logs(path) if self.with_logs else report).text(form).encode()
        if str(self.output) == "-":
            return text
        deliver(path, text, option="-o")
        return ReportFile(report, path, form)


report = function_of_many(Report, Report.report)


@dataclass(frozen=True)
class RunsReport:
    """The result of `report`.

    name      `<suite>-<session>` of the newest run, for a file
    runs_dir  directory of the runs
    about     its contents: sides that are compared, or a sweep
    references, options  what was asked
    """

    name: str
    runs_dir: Path
    about: Contents | SweepReport
    references: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def text(self, form: Form = "html") -> str:
        """The page as HTML, as Markdown for a comment, or a notebook that asks the library for the same.

        Raises InputError for a sweep as Markdown.
        """
        from assay.view import report
        from assay.view.contents import Contents
        from assay.view.notebook import notebook

        about = self.about
        if form == "notebook":
            answers, has_charts = self.plain()["answers"], bool(self.charts)
            return notebook(self.references, self.options, self.runs_dir, answers, has_charts=has_charts)
        if not isinstance(about, Contents):
            if form == "markdown":
                raise InputError("a sweep's report is a page of heat maps: omit --format markdown")
            return about.html_page()
        return report.markdown_text(about) if form == "markdown" else report.html_page(about)

    def plain(self) -> dict[str, Any]:
        """Its answers as plain data."""
        from assay.view.contents import Contents

        return _plain(self.about) if isinstance(self.about, Contents) else self.about.plain()

    def with_logs(self, page: Path) -> RunsReport:
        """The same with links to the logs of its runs, which are copied into a folder next to the page."""
        from assay.view.contents import Contents

        if not isinstance(self.about, Contents):
            return self
        return replace(self, about=_with_logs(self.about, page, self.runs_dir))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts of its page, for a notebook; a sweep's are in the page only."""
        from assay.view.charts import charts
        from assay.view.contents import Contents

        return charts(self.about) if isinstance(self.about, Contents) else ()

    def _repr_html_(self) -> str:
        return self.text()


@dataclass(frozen=True)
class ReportFile(Answer):
    """A report with its file."""

    report: RunsReport
    path: Path = Path()
    form: Form = "html"

    def view(self) -> Iterator[Block]:
        """Where the file is."""
        yield Paragraph(str(self.path), wraps=False)

    def document(self) -> dict[str, Any]:
        """The document `assay.report/1`."""
        place = {"path": str(self.path), "format": self.form}
        return {"schema": "assay.report/1", **place, **self.report.plain()}


def _gathered(
    sets: Sequence[RunSet], runs_dir: Path, margin: float | None, baseline: str | None, *, with_identity: bool
) -> Contents:
    from assay.read import flops
    from assay.suite.findings import suggestion
    from assay.view import contents

    plan = _shared_plan(sets)
    known = _sides(sets)
    if baseline is not None and baseline not in known:
        raise InputError(f"--baseline: there is no system {baseline}; {suggestion(baseline, known)}")
    sides = contents.baseline_first(known, plan, baseline)  # a fact has its values in this order
    recipes = _recipes(sides, runs_dir)
    gathered = contents.gather(
        sides,
        lambda run: _metrics(sets, run),
        plan=plan,
        margin=margin,
        facts=_facts(sides, with_identity=with_identity),
        recipes=recipes,
        flops=flops,
        prices=_prices(sets, sides),
        baseline=baseline,
    )
    gathered = replace(gathered, run_times=_run_times(gathered, runs_dir))
    return gathered if with_identity else _without_identity(gathered, recipes, runs_dir)


def _run_times(contents: Contents, runs_dir: Path) -> tuple[RunTime, ...]:
    from assay.view.charts.run_time import run_times
    from assay.view.contents import median_runs

    def directory(result: Result) -> Path:
        session, _, trial = result.run.id.rpartition("/")
        return runs_dir / session / trial / f"attempt-{result.run.attempt}"

    return run_times(contents.sides, {*median_runs(contents.summaries, contents.primary)}, directory)


def _without_identity(contents: Contents, recipes: Sequence[Recipe], runs_dir: Path) -> Contents:
    """The contents, with names of machines and people left out when written."""
    from assay.redact.pseudonyms import LEFT_OUT, anonymous
    from assay.rundir.session import Session

    hosts = [Session(runs_dir / recipe.session).header.host for recipe in recipes]
    texts = [text for r in recipes for text in (r.command_line, *r.files.values(), *r.commands.values())]
    results = [result for side in contents.sides.values() for result in side]
    names = anonymous(results, hosts, texts, contents.sides)
    return replace(contents, hide=names.text, left_out=LEFT_OUT)


def _prices(sets: Sequence[RunSet], sides: Mapping[str, Sequence[Result]]) -> dict[str, Price]:
    """Each side's price as stated in its plan."""
    by_session = {
        (plan.suite, result.run.session): plan
        for run_set in sets
        if (plan := run_set.plan)
        for result in run_set.results
    }
    first = {name: results[0].run for name, results in sides.items() if results}
    plans = {name: by_session.get((run.suite, run.session)) for name, run in first.items()}
    return {
        name: price
        for name, plan in plans.items()
        if plan is not None and (price := plan.prices.get(first[name].trial.system)) is not None
    }


def _with_logs(contents: Contents, page: Path, runs_dir: Path) -> Contents:
    """The contents with links to the logs, which are copied into a folder next to the page."""
    from assay.durable import deliver
    from assay.rundir.session import Session
    from assay.view.document import log_html

    folder = page.with_name(f"{page.stem}-logs")
    links: dict[str, dict[str, str]] = {}
    for run in (result.run for results in contents.sides.values() for result in results):
        session, _, trial = run.id.rpartition("/")
        attempt = Session(runs_dir / session).last_attempts()[trial]
        attempt.run()  # registers the secrets in its logs, which are hidden from now on
        for name, log in attempt.logs().items():
            place = PurePosixPath(*run.id.split("/"), f"{name}.html")
            deliver(folder / place, log_html(f"{run.id} {name}", log, contents.hide).encode(), option="-o")
            links.setdefault(run.id, {})[name] = quote(f"{folder.name}/{place}")
    return replace(contents, logs=links)


def _shared_plan(sets: Sequence[RunSet]) -> Plan | None:
    """The newest plan, if all references have one suite digest; else no plan applies to all."""
    plans = [run_set.plan for run_set in sets if run_set.plan is not None]
    digests = {plan.suite_digest for plan in plans}
    return plans[-1] if len(plans) == len(sets) and len(digests) == 1 else None


def _metrics(sets: Sequence[RunSet], run: Run) -> Mapping[str, Metric]:
    """What the run's workload declares, with the primary metric of its suite first."""
    own = next(
        (run_set for run_set in sets if run_set.plan is not None and run_set.plan.suite == run.suite), sets[0]
    )
    return own.metrics()(run)


def _sides(sets: Sequence[RunSet]) -> dict[str, list[Result]]:
    """The runs by system; if two references contain the same system, under the references' names too."""
    systems = [system for run_set in sets for system in run_set.by_system()]
    sides: dict[str, list[Result]] = {}
    seen: dict[str, str] = {}
    for run_set in sets:
        by_system = run_set.by_system()
        for system, results in by_system.items():
            full = run_set.reference if len(by_system) == 1 else f"{run_set.reference}:{system}"
            for result in results:
                if seen.setdefault(result.run.id, run_set.reference) != run_set.reference:
                    raise InputError(
                        f"{result.run.id} is in {seen[result.run.id]} and in {run_set.reference}: "
                        "name references that share no run"
                    )
            sides[system if systems.count(system) == 1 else full] = results
    return sides


def _facts(sides: Mapping[str, Sequence[Result]], *, with_identity: bool) -> list[ReportedFact]:
    """Every provenance fact with each side's values; those that differ and could matter are marked."""
    from itertools import chain

    from assay import provenance
    from assay.view.contents import ReportedFact

    known = [[r.provenance for r in results if r.provenance is not None] for results in sides.values()]
    own = [{fact.name: fact.a for fact in provenance.side_by_side(side, ())} for side in known]
    reported = []
    for fact in provenance.side_by_side(known[0], chain(*known[1:])):
        if not with_identity and (fact.group == "identity" or fact.name == "boot_id"):
            continue
        values = [table.get(fact.name, (None,)) for table in own]
        differs = len(set(values)) > 1
        texts = tuple(map(_summarized, values))
        matters = differs and fact.group not in provenance.INCIDENTAL
        reported.append(ReportedFact(fact.name, provenance.GROUPS[fact.group], texts, differs, matters))
    return reported


def _summarized(values: Sequence[Scalar]) -> str:
    """A fact's values over nodes and runs: a few as they are, more as a range or a count."""
    if len(values) <= MOST_VALUES:
        return ", ".join("absent" if v is None else str(v) for v in values)
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values):
        return f"{min(numbers):,} to {max(numbers):,} ({len(values)} values)"
    shown = ", ".join("absent" if v is None else str(v) for v in values[:MOST_VALUES])
    return f"{shown} and {len(values) - MOST_VALUES} more"


def _recipes(sides: Mapping[str, Sequence[Result]], runs_dir: Path) -> list[Recipe]:
    """How to reproduce each session of these runs, ordered by name."""
    from assay.rundir.session import Session

    runs: dict[str, list[Run]] = {}
    for results in sides.values():
        for result in results:
            runs.setdefault(f"{result.run.suite}/{result.run.session}", []).append(result.run)
    return [_recipe(Session(runs_dir / name), runs[name]) for name in sorted(runs)]


def _recipe(session: Session, runs: Sequence[Run]) -> Recipe:
    from assay.view.contents import Recipe

    header = session.header
    files = {name: session.path / name for name in ("suite.yaml", "systems.yaml")}
    return Recipe(
        session=session.id,
        command_line=shlex.join(header.command_line),
        seed=session.plan().seed if (session.path / "plan.json").is_file() else None,
        plan_digest=header.plan_digest,
        suite_digest=header.suite_digest,
        assay_version=header.assay_version,
        git=_git(header.git),
        files={name: _text(path) for name, path in files.items() if path.is_file()},
        commands=_commands(session, runs),
    )


def _git(state: Mapping[str, Scalar]) -> str:
    """`1f0c9ab on main, with changes`; "" if unknown."""
    if "commit" not in state:
        return ""
    branch = f" on {state['branch']}" if "branch" in state else ""
    return f"{state['commit']}{branch}{', with changes' if state.get('dirty') else ''}"


def _commands(session: Session, runs: Sequence[Run]) -> dict[str, str]:
    """The exact command of the first trial of each benchmark, system and shape; none for imported logs."""
    kinds: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        trial = run.trial
        kinds.setdefault((trial.benchmark, trial.system, str(trial.shape)), run)
    attempts = session.last_attempts()
    return {
        run.trial.id: attempts[run.trial.id].sent().rendered.command
        for run in list(kinds.values())[:MOST_COMMANDS]
        if run.trial.id in attempts and (attempts[run.trial.id].path / "plan.json").is_file()
    }


def _text(path: Path) -> str:
    return read_whole(path).decode(errors="replace")


def _plain(contents: Contents) -> dict[str, Any]:
    """The answers as plain data."""
    from assay.view.report import reported_claims
    from assay.view.sentences.ranking import plain

    return {
        "runs": contents.runs,
        "failed": len(contents.failures),
        "unfinished": contents.unfinished,
        "answers": [
            {"verdict": claim.verdict, "sentence": claim.sentence, "doubts": [*claims.doubts, *claim.doubts]}
            for _, claims in reported_claims(contents)
            for claim in claims.claims
        ],
        "rankings": plain(contents.rankings),
    }

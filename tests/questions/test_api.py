"""The Python functions give what the commands of the same names print, and cost nothing until used."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import assay
import stated_runs
from assay import api, store
from assay.analyse.points import groups
from assay.cli import assay as command_line
from assay.cli.commands import COMMANDS
from assay.errors import InputError
from assay.records import Result


class Page(HTMLParser):
    """Counts elements and sees that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read_page(html: str) -> Page:
    page = Page()
    page.feed(html)
    assert page.open == []
    return page


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two systems at two sizes, five runs each; `b` is as fast as `a`."""
    monkeypatch.setattr("assay.read.metrics", stated_runs.metrics())
    made = [
        one
        for system, factor in (("a", 1.0), ("b<i>", 1.001))
        for shape, value in (("1x1", 100.0), ("2x1", 190.0))
        for one in stated_runs.side(
            [factor * value * (1 + luck) for luck in (-0.002, 0.001, 0.003, -0.001, 0.0)],
            system=system,
            shape=shape,
        )
    ]
    store.update(tmp_path, made, gone=())
    return tmp_path


def test_importing_assay_imports_nothing_else_and_the_functions_are_there() -> None:
    program = """
import sys, assay
print(sorted(m for m in sys.modules if m.startswith("assay.") or m in ("numpy", "click", "rich")))
print(assay.compare.__module__, {"compare", "scale", "score"} <= set(dir(assay)))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["['assay.version']", "assay.questions.compare True"]


def test_show_groups_each_systems_runs_once_whatever_is_asked_of_them(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_systems: list[set[str]] = []

    def counting(results: Sequence[Result], metrics: groups.Metrics) -> object:
        of_systems.append({result.run.trial.system for result in results})
        return grouped(results, metrics)

    assay.show("suite", runs=runs)  # a module that is imported later would keep what counts
    grouped = groups.group
    for module in [m for m in [*sys.modules.values()] if getattr(m, "group", None) is grouped]:
        monkeypatch.setattr(module, "group", counting)
    found = assay.show("suite", runs=runs)
    assert found.doubts == ()
    assert found.points == 4
    assert all(system.exchanges == () for system in found.systems)
    assert found.usage == ()
    assert sorted(map(sorted, of_systems)) == [["a"], ["b<i>"]]


def test_a_name_that_assay_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compere'"):
        assay.compere  # noqa: B018


@pytest.mark.parametrize(
    ("function", "command"),
    [
        (api.clean, "clean"),
        (api.compare, "compare"),
        (api.diff, "diff"),
        (api.doctor, "doctor"),
        (api.explain, "explain"),
        (api.export, "export"),
        (api.gate, "gate"),
        (api.history, "history"),
        (api.import_, "import"),
        (api.index, "index"),
        (api.init, "init"),
        (api.plan, "plan"),
        (api.report, "report"),
        (api.run, "run"),
        (api.scale, "scale"),
        (api.score, "score"),
        (api.list_runs, "show"),
        (api.submit, "submit"),
        (api.sweep, "sweep"),
    ],
)
def test_functions_take_what_their_commands_take_under_the_same_names(
    function: Callable[..., object], command: str
) -> None:
    only_shown = {
        *("json", "all", "junit", "print", "quiet", "runs_table", "show", "validate", "with_logs"),
        *({"report"} if command in ("history", "run") else ()),
        *({"format"} if command == "report" else ()),
        *({"schema"} if command == "init" else ()),
    }
    only_here = {"command_line", "composed", "noted", "output", "progress"}
    renamed = {"for": "for_s"}  # a word of Python
    context = click.Context(command_line)
    found = command_line.get_command(context, command)
    assert found is not None
    options = {
        renamed.get(name, name)
        for option in found.params
        if option.opts[0].startswith("--")
        and (name := option.opts[0].removeprefix("--").replace("-", "_")) not in only_shown
    }
    parameters = inspect.signature(function).parameters
    by_name = {name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert by_name - only_here == options
    assert function.__name__.rstrip("_") in (command, "list_runs")
    assert command in COMMANDS


def test_compare_gives_the_records_behind_what_the_command_prints(runs: Path) -> None:
    found = assay.compare("suite:a", "suite:b<i>", margin="2%", runs=runs)
    printed = CliRunner().invoke(
        command_line, ["compare", "suite:a", "suite:b<i>", "--margin", "2%", "--json", "--runs", str(runs)]
    )
    assert printed.exit_code == 0, printed.output
    document = json.loads(printed.stdout)
    assert [c.ratio.value for c in found] == [c["ratio"]["value"] for c in document["comparisons"]]
    assert [c.verdict for c in found.primary] == ["equivalent", "equivalent"]
    assert (found.margin, len(found), found.not_compared) == (0.02, 2, ())


def test_scale_gives_the_curves_that_the_command_prints(runs: Path) -> None:
    found = assay.scale("suite", runs=str(runs), metric="throughput")
    assert [curve.system for curve in found] == ["a", "b<i>"]
    assert found.curves[0].points[1].efficiency.value == pytest.approx(0.95)
    assert len(found) == 2


def test_score_gives_the_scores_that_the_command_prints(mlperf_logs: Path) -> None:
    folder = mlperf_logs / "v3.1" / "Supermicro-RedHat"
    found = assay.score(folder)
    printed = json.loads(CliRunner().invoke(command_line, ["score", str(folder), "--json"]).stdout)
    assert [s.score.minutes for s in found] == [s["score_minutes"] for s in printed["sets"]]
    resnet = next(s for s in found if s.benchmark == "resnet")
    assert resnet.score.scaled == pytest.approx(21.1348, abs=1e-4)
    page = read_page(found._repr_html_())
    assert "21.135" in page.text
    assert "system-contradicts" in page.text
    assert len(found) == 2
    assert "score 20.933 min" in str(found)
    label = "Result not verified by MLCommons Association"
    assert page.text.count(label) == str(found).count(label) == 1


def test_results_are_frozen_and_comparable(runs: Path) -> None:
    found = assay.scale("suite", runs=runs)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.curves = ()  # type: ignore[misc]
    assert found == assay.scale("suite", runs=runs), "the same input gives the same verdict"


def test_a_notebook_shows_tables_and_takes_names_for_no_markup(runs: Path) -> None:
    compared = read_page(assay.compare("suite", runs=runs)._repr_html_())
    assert compared.seen.count("table") == 1
    assert "i" not in compared.seen, "a system's name is no markup"
    assert "b<i>" in compared.text
    assert "equivalent" in compared.text
    scaled = read_page(assay.scale("suite", runs=runs)._repr_html_())
    assert "95 %" in scaled.text
    assert "Amdahl" in scaled.text


def test_a_notebook_shows_time_to_train_taken_apart(mlperf_logs: Path, tmp_path: Path) -> None:
    for name, folder in (
        ("ubuntu", "v3.0"),
        ("openshift", "v3.1/Supermicro-RedHat/AS-4125GS-TNRT-RedHat-OpenShift/resnet"),
    ):
        arguments = ["import", str(mlperf_logs / folder), "--name", name, "--runs", str(tmp_path)]
        assert CliRunner().invoke(command_line, arguments).exit_code == 0
    found = assay.compare("ubuntu", "openshift", runs=tmp_path)
    page = read_page(found._repr_html_())
    assert len(found.time_to_train) == 1
    assert "convergence" in page.text
    assert "global batch size" in page.text


def test_printing_a_result_shows_what_the_command_shows(runs: Path) -> None:
    assert "as fast" in str(assay.compare("suite", runs=runs))
    assert "efficiency" in str(assay.scale("suite", runs=runs))


def test_the_environment_names_the_runs_as_for_the_commands(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_RUNS", str(runs))
    assert assay.scale("suite") == assay.scale("suite", runs=runs)


@pytest.mark.parametrize("margin", ["200%", "two", 1.5, 0])
def test_a_margin_that_is_none_is_refused(runs: Path, margin: object) -> None:
    with pytest.raises(InputError, match="margin"):
        assay.compare("suite", margin=margin, runs=runs)  # type: ignore[arg-type]


def test_several_names_or_paths_are_taken_one_by_one_or_as_a_list(runs: Path, tmp_path: Path) -> None:
    sides = ["suite:a", "suite:b<i>"]
    counts = [api.export(*given, output=tmp_path / "m.csv", runs=runs) for given in (sides, [sides])]
    assert counts[0] == counts[1]
    with pytest.raises(InputError, match="no such file or folder"):
        assay.score([tmp_path / "nothing"])
    with pytest.raises(InputError, match="nothing: can't be read"):
        api.import_([tmp_path / "nothing"], name="x", runs=runs)


@pytest.mark.parametrize("wrong", [3, None, [3], []], ids=repr)
def test_what_is_no_name_and_no_path_is_refused_in_words(runs: Path, wrong: object) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: assay.score(wrong),  # type: ignore[arg-type]
        lambda: api.import_(wrong, name="x", runs=runs),  # type: ignore[arg-type]
        lambda: assay.scale(wrong, runs=runs),  # type: ignore[arg-type]
        lambda: api.report(wrong, runs=runs),  # type: ignore[arg-type]
        lambda: assay.compare(wrong, runs=runs),  # type: ignore[arg-type]
        lambda: assay.show(wrong, runs=runs),  # type: ignore[arg-type]
    )
    for call in calls:
        with pytest.raises(InputError, match="; expected a name"):
            call()


def test_wrong_values_are_refused_before_anything_is_done(runs: Path, tmp_path: Path) -> None:
    suite, systems = api.make_suite({"suite": "s", "workload": "membw"})
    refused: dict[str, Callable[[], object]] = {
        "limit: found -1": lambda: api.list_runs(limit=-1, runs=runs),
        "until: found 'done'": lambda: api.plan(suite, systems=systems, until="done"),  # type: ignore[arg-type]
        "max_repeats: 1 runs": lambda: api.plan(suite, systems=systems, until="decided", max_repeats=1),
        "found 'zz'; expected suite": lambda: api.schema("zz"),  # type: ignore[arg-type]
        "format: found 'xlsx'": lambda: api.export(
            "suite", output=tmp_path / "o.x", format="xlsx", runs=runs
        ),  # type: ignore[arg-type]
        "format: found 'zzz'": lambda: api.import_(tmp_path, name="x", format="zzz", runs=runs),
        "since: 'soon'": lambda: api.history("throughput", since="soon", runs=runs),
        "at_least: .* write a speed": lambda: api.doctor(data="/tmp", at_least="fast"),
        "found ''; expected a name": lambda: api.compare("", runs=runs),
    }
    for words, call in refused.items():
        with pytest.raises(InputError, match=words):
            call()


def test_values_are_written_as_on_the_command_line(runs: Path, tmp_path: Path) -> None:
    assert len(api.list_runs(runs=runs).rows) == 2
    assert api.export("suite", output=tmp_path / "o.json", runs=runs).measurements
    assert json.loads((tmp_path / "o.json").read_text())
    assert api.show(Path("suite"), runs=runs).points == api.show("suite", runs=runs).points


def test_a_type_checker_sees_the_types() -> None:
    for package in (assay, import_module("assay_payloads")):
        assert files(package).joinpath("py.typed").is_file()


def test_mistakes_raise_the_commands_own_words(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs with this name"):
        assay.compare("suiet", runs=runs)
    with pytest.raises(InputError, match="round: 'v31' is not a round"):
        assay.score(tmp_path, round="v31")
    with pytest.raises(InputError, match="no such file or folder"):
        assay.score(tmp_path / "nothing")


def test_what_commands_print_of_files_is_asked_without_them(tmp_path: Path) -> None:
    assert api.schema("suite")["properties"]["suite"]
    file = api.containerfile("matmul", accelerator="cpu")
    said = CliRunner().invoke(command_line, ["stack", "containerfile", "matmul"])
    assert file.text == said.stdout
    with pytest.raises(InputError, match="none"):
        api.openstack(tmp_path / "none.yaml")

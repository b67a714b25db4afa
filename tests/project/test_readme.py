"""README and first pages are true: their commands run as they are written, their suites load and plan."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from assay import plan, store
from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE
from assay.launch import SYSTEM_MODELS
from assay.records import Plan
from assay.rundir import session as rundir
from assay.rundir.files import Header
from assay.suite import load
from assay.workloads import WORKLOADS
from command_line import typed
from conftest import ROOT, long_but
from stated_runs import result

README = (ROOT / "README.md").read_text()
TUTORIAL = (ROOT / "docs" / "tutorial" / "first-verdict.md").read_text()
HOW_TO = ROOT / "docs" / "how-to"
SUITES, LOGS, LAUNCHERS = ((HOW_TO / f"{name}.md").read_text() for name in ("suites", "logs", "launchers"))
ANSWERS = (EXIT_OK, EXIT_WORSE, EXIT_UNDECIDED)
INSTALLS = ("pip install", "python3 -m venv", "source ")
HOME = (ROOT / "docs" / "index.md").read_text()


def blocks(language: str, text: str) -> list[str]:
    """Fenced blocks of a language, in the order of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """The command lines of a block without their comments, and without what installs."""
    lines = (re.sub(r"\s+#.*", "", text).strip() for text in block.splitlines())
    return [line for line in lines if line and not line.startswith(INSTALLS)]


def console(word: str, text: str) -> list[str]:
    """The commands of the one block of a page that holds this word."""
    (block,) = (block for block in blocks("console", text) if word in block)
    return commands(block)


def run(line: str, folder: Path) -> int:
    """Run one line as a person types it; a traceback is never right."""
    ran = typed(folder, line)
    assert "Traceback" not in ran.stderr, f"{line}\n{ran.stderr}"
    assert not ran.stderr.startswith("assay: "), f"{line}\n{ran.stderr}"
    return ran.returncode


def written_suites(folder: Path) -> list[Path]:
    """Each suite of the page as a file; a block that is none is the systems.yaml of the one before."""
    found: list[Path] = []
    for block in blocks("yaml", SUITES):
        if "suite" in YAML(typ="safe").load(block):
            found.append(folder / f"suite-{len(found)}" / "suite.yaml")
            found[-1].parent.mkdir()
            found[-1].write_text(block)
        else:
            (found[-1].parent / "systems.yaml").write_text(block)
    return found


def planned(path: Path) -> Plan:
    params = {name: workload.params for name, workload in WORKLOADS.items()}
    return plan.make(*load(path, params_models=params, launcher_models=SYSTEM_MODELS))


def test_every_suite_of_the_page_about_suites_loads_and_plans(tmp_path: Path) -> None:
    plans = {made.suite: made for made in map(planned, written_suites(tmp_path))}
    assert plans.keys() == {"resnet50-scaling", "is-the-platform-free", "my-training"}
    scaling = plans["resnet50-scaling"]
    assert (scaling.systems, scaling.baseline, scaling.margin) == (("plain", "pinned"), "plain", 0.02)
    assert len(scaling.trials) == 2 * 2 * 2 * 3
    assert scaling.expectations["resnet50"][0].written == ">= 10 images/s"


def test_every_block_of_commands_is_run_by_a_test_here() -> None:
    starters = ("make ", "assay init", "assay try", "assay read", "assay scale my-suite", "assay sweep")
    starters += ("assay score",)
    for text in (README, HOME, SUITES, LOGS, LAUNCHERS):
        for block in blocks("console", text):
            assert any(word in block for word in starters), f"no test runs:\n{block}"


@pytest.mark.parametrize("text", [README, HOME, SUITES, TUTORIAL])
def test_what_is_installed_exists(text: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"pip install '?([\w-]+)(?:\[(\w+)\])?'?", text)
    assert named
    for name, extra in named:
        assert name == project["name"]
        assert not extra or extra in project["optional-dependencies"]


def test_make_has_every_target_that_documents_name() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    documents = README + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", documents, re.MULTILINE))
    assert {"demo", "test", "check", "bench"} <= named <= targets


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with runs of the suite that `assay init` writes: its trainings, at made-up speeds."""
    assert run("assay init my-suite", tmp_path) == 0
    made = planned(tmp_path / "my-suite" / "suite.yaml")
    header = Header(
        1, "0", made.suite, made.suite_digest, made.digest, 1_772_360_000.0, "a-machine", ("assay",)
    )
    session = rundir.create(tmp_path / "runs", header, made, {})
    results = []
    for at, trial in enumerate(trial for trial in made.trials if trial.benchmark == "training"):
        one = result(20.0 * trial.shape.ranks * (1 + at % 5 / 1000), suite=made.suite, session=session.name)
        run_id = f"{session.id}/{trial.id}"
        results.append(replace(one, run=replace(one.run, id=run_id, trial=trial)))
    store.update(tmp_path / "runs", results)
    return tmp_path


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.kubernetes
@pytest.mark.long
def test_commands_about_a_cluster_work(tmp_path: Path) -> None:
    sweep, prepare, doctor = console("assay sweep", LAUNCHERS)
    with cluster.namespace() as space:
        cluster.need_nodes_here()
        lab = {"launcher": "kubernetes", "namespace": space, "image": cluster.IMAGE, "python": "host"}
        lab |= {"runAsUser": "image", "resources": {"accelerator": {"cpu": "250m", "memory": "8Gi"}}}
        (tmp_path / "systems.yaml").write_text(json.dumps({"lab": lab}))
        assert run(f"{sweep} --rounds 1 --repeats 1 --seconds 0.1", tmp_path) == EXIT_UNDECIDED  # two nodes
        assert run(prepare, tmp_path) == 0
        assert run(doctor, tmp_path) in {0, EXIT_ENVIRONMENT}


def test_two_commands_are_compared_as_the_readme_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\nprint(f'{sys.argv[2]}{os.getpid() % 10} samples/s')\n"
    )
    demo, compare = console("assay try", README)
    assert demo == "assay demo"  # tests/questions/test_demo.py runs it
    assert run(compare, tmp_path) in ANSWERS


def test_commands_about_finished_runs_work(finished: Path) -> None:
    lines = console("assay scale my-suite", SUITES)
    assert {line: run(line, finished) for line in lines} == dict.fromkeys(lines, 0)
    assert (finished / "page.html").read_text().startswith("<!doctype html>")


def test_commands_about_logs_work(tmp_path: Path, mlperf_logs: Path) -> None:
    for name, source in (("dgx1", "v0.6/NVIDIA/dgx1_ngc19.05_mxnet/resnet"), ("mine", "v3.0/Supermicro")):
        shutil.copytree(mlperf_logs / source, tmp_path / "results" / name / "resnet")
    assert run("assay import results/mine --name my-cluster", tmp_path) == 0
    lines = console("assay score", LOGS)
    assert {line: run(line, tmp_path) for line in lines} == dict.fromkeys(lines, 0)


def test_the_logs_of_the_page_are_read_at_once(tmp_path: Path) -> None:
    def log(name: str, rate: float) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = f"Img/sec per GPU: {rate:.2f} +-1.2\nTotal img/sec on 4 GPU(s): {4 * rate:.2f} +-4.9\n"
        (tmp_path / name).write_text(text)

    log("all_reduce.log", 100)
    for number in range(1, 10):
        log(f"burn-in/node{number}.log", 100 + number / 100)
        log(f"before/run{number}.log", 100 + number / 100)
        log(f"after/run{number}.log", 90 + number / 100)
    shutil.make_archive(str(tmp_path / "logs"), "gztar", tmp_path / "before")
    lines = console("assay read", LOGS)
    assert [run(line, tmp_path) for line in lines] == [EXIT_OK, EXIT_OK, EXIT_WORSE, EXIT_OK]
    assert run("assay show cluster", tmp_path) == 0


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("text", long_but(1, [README, HOME, SUITES]), ids=["readme", "home", "suites"])
def test_the_first_commands_lead_to_a_finished_run(text: str, tmp_path: Path) -> None:
    for line in console("assay init", text):
        assert run(line, tmp_path) in ANSWERS, line
        suite = tmp_path / "my-suite" / "suite.yaml"
        if suite.is_file():  # one repeat of the quickest benchmark is enough to see that it runs
            said = YAML(typ="safe").load(suite)
            said |= {
                "repeats": 1,
                "shapes": ["1x1"],
                "benchmarks": {"compute": said["benchmarks"]["compute"]},
            }
            YAML().dump(said, suite)
    assert run("assay show my-suite", tmp_path) == 0


def steps(text: str) -> list[tuple[str, str]]:
    """Files to write and lines to type, in the order of the page: (name, content) or ("", line)."""
    found = re.findall(
        r'^```(console|(?:python|yaml) title="([^"]+)")\n(.*?)^```', text, re.MULTILINE | re.DOTALL
    )
    return [
        step
        for _, name, content in found
        for step in ([(name, content)] if name else [("", line) for line in commands(content)])
    ]


@pytest.mark.long
@pytest.mark.slow
def test_the_tutorial_leads_to_two_verdicts(tmp_path: Path) -> None:
    typed_lines = []
    for name, content in steps(TUTORIAL):
        if name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            quicker = content.replace("IMAGES = 64, 160_000", "IMAGES = 64, 16_000")
            (tmp_path / name).write_text(quicker)
        else:
            typed_lines.append(content)
            assert run(content, tmp_path) in ANSWERS, content
    assert typed_lines[-1] == "assay report mine -o mine.html"
    sessions = sorted((tmp_path / "runs" / "mine").glob("*Z"))
    assert [len(list(session.glob("*/attempt-1"))) for session in sessions] == [5, 10]
    assert (tmp_path / "mine.html").is_file()
    compared = typed(tmp_path, "assay compare mine").stdout
    assert re.search(r"batch-4 +batch-32 +B/A +95 % CI +n +verdict", compared)

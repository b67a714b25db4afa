"""Jobs from a site's template: what was chosen is checked, shown, run, and kept with the run."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

import counted_frames
import made_a2d2
from assay import api
from assay.errors import InputError
from assay.frame_manifest import ChosenFrame, read_manifest
from assay.suite.job_template import TemplateFile, parse_range, read_template
from assay.workloads import PARAMS
from assay_payloads.datasets.manifest import changed
from assay_payloads.datasets.staging_cache import set_name
from command_line import assay as typed
from conftest import ROOT, long_but, long_rows_but
from lsf_cluster import lsf_commands  # noqa: F401  (a fixture)

COUNT = (
    "import json; lines = open('manifest.jsonl').read().splitlines(); "
    "print('frames:', len(lines) - 1, 'digest:', json.loads(lines[0])['digest'])"
)
TEMPLATE = f"""\
template: cars
about: Count frames with cars
catalog: c.duckdb
labels:
  car: {{within: 0..100, required: true}}
  fußgänger: {{within: 0%..50%}}
  camera: {{choices: [cam_front_center, cam_front_left], default: cam_front_left}}
  scene: {{choices: any}}
where: unknown = 0
limit: {{within: 1..50}}
systems: [local, power, batch, cloud]
shapes: [1x1, 2x1]
workload: command
params:
  argv: ["{{python}}", -c, {json.dumps(COUNT)}]
  metrics: {{frames: {{pattern: 'frames: (?P<value>[0-9]+)', better: higher}}}}
timeout: 60s
"""
SYSTEMS = """\
power: {launcher: lsf, python: "%s"}
batch: {launcher: slurm}
cloud: {launcher: kubernetes, image: "torch:1", namespace: bench}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with a template, its systems, and a catalog of 40 frames."""
    (tmp_path / "t.yaml").write_text(TEMPLATE)
    (tmp_path / "systems.yaml").write_text(SYSTEMS % sys.executable)
    counted_frames.catalog(tmp_path / "c.duckdb", range(40))
    return tmp_path


def submit(site: Path, *words: str) -> CompletedProcess[str]:
    return typed(site, "data", "submit", "t.yaml", "--yes", *words)


def shown(site: Path, *words: str) -> dict[str, Any]:
    done = submit(site, "--dry-run", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kept(site: Path, number: int = 1) -> list[Path]:
    return sorted(site.glob(f"runs/cars/*/*/attempt-{number}/inputs/manifest.jsonl"))


@pytest.mark.parametrize(
    ("words", "where", "number"),
    long_rows_but(2, [
        (("--set", "car=10..19"), "(unknown = 0) and car = 10..19 and camera = 'cam_front_left'", 5),
        (
            ("--set", "car=0..", "--set", "fußgänger=0.1%..", "--set", "camera=cam_front_center"),
            "(unknown = 0) and car = 0..100 and fußgänger = 0.1%..50% and camera = 'cam_front_center'",
            4,
        ),
        (("--set", "car=35.."), "(unknown = 0) and car = 35..100 and camera = 'cam_front_left'", 3),
        (("--set", "car=7"), "(unknown = 0) and car = 7 and camera = 'cam_front_left'", 1),
        (
            ("--set", "car=..3", "--set", "camera=cam_front_left, cam_front_center"),
            "(unknown = 0) and car = 0..3 and camera in ('cam_front_left', 'cam_front_center')",
            4,
        ),
        (
            ("--set", "car=0..20", "--set", "scene=s1"),
            "(unknown = 0) and car = 0..20 and camera = 'cam_front_left' and scene = 's1'",
            4,
        ),
    ]),
)  # fmt: skip
def test_labels_become_a_condition_within_their_bounds(
    site: Path, words: tuple[str, ...], where: str, number: int
) -> None:
    found = shown(site, "--limit", str(number), *words)
    assert (found["where"], found["frames"]["number"], found["frames"]["of"]) == (where, number, 40)
    more = submit(site, "--dry-run", "--limit", str(number + 1), *words)
    assert (more.returncode, f"{number} frames satisfy" in more.stderr) == (4, True)


def test_a_label_is_the_same_however_its_letters_are_composed(site: Path) -> None:
    decomposed = "fußga\u0308nger=0.1%.."
    found = shown(
        site, "--limit", "1", "--set", "car=0..", "--set", decomposed, "--set", "camera=cam_front_center"
    )
    assert "fußgänger = 0.1%..50%" in found["where"]


def test_everything_wrong_with_the_choices_is_reported_at_once(site: Path) -> None:
    options = (
        "--set car=90..101 --set fußgänger=5..6 --set camera=cam_rear --set sky=1 --limit 51 --shape 9x9"
    )
    done = submit(site, *options.split(), "--system", "powr", "--param", "timeout=1", "--param", "argv=[1]")
    assert done.returncode == 4
    assert done.stdout == ""
    assert [line.removeprefix("assay: ") for line in done.stderr.splitlines()] == [
        '--set sky: "sky" is not a label that this template lets you choose; choose from camera, car, '
        "fußgänger, scene",
        "--set car: 90..101 is not within 0..100",
        "--set fußgänger: 5..6 can't be compared with the bounds; write a share of the frame's pixels, "
        "like 0%..50%",
        '--set camera: "cam_rear" can\'t be chosen; choose from cam_front_center, cam_front_left',
        '--param timeout: "timeout" is not a parameter that this template lets you set; none is available',
        f"--param argv: is fixed by the template, as {json.dumps(['{python}', '-c', COUNT])[:57]}...",
        "--limit: 51 is not within 1..50",
        '--system: "powr" is not in the template; did you mean power?',
        '--shape: "9x9" is not in the template; choose from 1x1, 2x1',
    ]
    assert not (site / "runs").exists()


def test_a_required_label_and_a_bounded_limit_are_asked_for(site: Path) -> None:
    done = submit(site)
    assert "--set car: is missing; choose 0..100" in done.stderr
    assert "--limit: is missing; choose 1..50" in done.stderr


def test_if_no_frame_is_left_each_condition_alone_is_counted(site: Path) -> None:
    done = submit(site, "--set", "car=50..", "--limit", "5")
    assert done.returncode == 4
    assert "Of 40 frames, each condition alone: unknown = 0: 40; car = 50..100: 0; camera" in done.stderr


def test_everything_wrong_with_a_template_is_reported_with_its_line(site: Path) -> None:
    (site / "t.yaml").write_text(
        "template: cars\ncatalog: c.duckdb\nlabels:\n"
        "  car: {within: 5..1}\n"
        "  dog: {}\n"
        "  'a b': {within: 0..1}\n"
        "  scene: {choices: any, within: 0..1}\n"
        "workload: command\nparams: {choose: {}}\nfree:\n  argvs: {}\nwheer: x\n"
    )
    done = submit(site)
    assert done.returncode == 4
    lines = [line.removeprefix("assay: ").partition(": ") for line in done.stderr.splitlines()]
    assert [where for where, _, _ in lines] == ["t.yaml:4", "t.yaml:5", "t.yaml:7", "t.yaml:12"]
    (site / "t.yaml").write_text(
        "template: cars\ncatalog: none.duckdb\nlabels:\n"
        "  and: {within: 0..1}\n"
        "  'a b': {within: 0..1}\n"
        "  fußgänger: {within: 0..1}\n"
        "  fußga\u0308nger: {within: 0..1}\n"
        "workload: command\nparams: {manifest: m, argv: [a]}\nfree:\n  argvs: {}\n  argv: {}\n"
    )
    done = submit(site)
    said = done.stderr.removeprefix("assay: ").splitlines()
    assert [line.partition(": ")[0] for line in said] == [f"t.yaml:{n}" for n in (4, 5, 7, 9, 11, 12)]
    assert "did you mean argv?" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("c.duckdb", "none.duckdb", "t.yaml:3: catalog: "),
        ("c.duckdb", "t.yaml", "t.yaml:3: catalog: "),
        ("  scene:", "  szene:", 't.yaml:8: labels: "szene" is not a class or column of the catalog'),
        ("unknown = 0", "unknown = 0) or (car > 1", "t.yaml:9: where: the condition"),
        (
            "workload: command",
            "workload: resnet50",
            "reads no chosen frames; choose from segmentation, command",
        ),
        ("within: 0..100,", "within: 0..1000000000000000000000,", "at most 15 digits"),
        ("pattern: 'frames", "patern: 'frames", "t.yaml:16: params.metrics.frames.patern: unknown key"),
    ],
)
def test_a_template_that_does_not_fit_catalog_or_workload_is_refused(
    site: Path, old: str, new: str, words: str
) -> None:
    text = (site / "t.yaml").read_text()
    assert old in text
    (site / "t.yaml").write_text(text.replace(old, new, 1))
    done = submit(site, "--set", "car=1..", "--limit", "1")
    assert done.returncode == 4
    assert words in done.stderr


def test_a_bomb_of_aliases_and_a_file_that_is_no_template_are_refused(site: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    for text, words in (
        (bomb, "values once its aliases are expanded"),
        ("[1]", "expected template: NAME"),
        ("", "empty"),
    ):
        (site / "t.yaml").write_text(text)
        done = submit(site, "--set", "car=1..")
        assert (done.returncode, words in done.stderr) == (4, True), done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "s1' OR '1'='1",
        "s1; DROP TABLE frames",
        "' UNION SELECT * FROM damaged --",
        's1", "s2',
        ") or car > 0 or (scene = s1",
    ],
)
def test_a_value_is_never_more_than_a_value(site: Path, value: str) -> None:
    done = submit(site, "--dry-run", "--set", "car=0..", "--limit", "1", "--set", f"scene={value}")
    assert done.returncode == 4
    assert "no frame satisfies" in done.stderr or "quotation marks" in done.stderr
    assert api.query_data("", catalog=site / "c.duckdb").frames


def test_the_frames_are_those_of_the_moment_of_submission_and_kept(site: Path) -> None:
    """A catalog that grew in between: the second run has the frames that it has then."""
    words = ("--set", "car=30..", "--set", "camera=cam_front_center", "--limit", "5")
    assert shown(site, *words)["frames"]["number"] == 5
    first = submit(site, *words)
    assert first.returncode == 0, first.stderr
    counted_frames.catalog(site / "c.duckdb", range(40, 60))
    assert submit(site, *words).returncode == 0
    manifests = [read_manifest(path) for path in kept(site)]
    assert [len(one.frames) for one in manifests] == [5, 5]
    assert manifests[0].digest != manifests[1].digest
    for one, path in zip(manifests, kept(site), strict=True):
        log = (path.parents[1] / "logs" / "rank-0.log").read_text()
        assert f"frames: 5 digest: {one.digest}" in log
        facts = json.loads((path.parents[1] / "reading.json").read_text())["reading"]["facts"]
        assert (facts["manifest_digest"], facts["manifest_frames"]) == (one.digest, 5)
        sent = json.loads((path.parents[1] / "plan.json").read_text())["rendered"]["files"]
        assert set(sent) == {"manifest.jsonl"}
    suite = YAML(typ="safe").load(next(site.glob("runs/cars/*/suite.yaml")))
    assert (
        suite["params"]["choose"]["where"]
        == "(unknown = 0) and car = 30..100 and camera = 'cam_front_center'"
    )


@pytest.mark.long
def test_a_killed_submission_is_taken_over_with_the_manifest_that_was_sent(site: Path) -> None:
    """kill -9 of Assay while the job runs; the catalog changes; the same command brings that job in."""
    wait = f"import os, time\nwhile not os.path.exists({str(site / 'go')!r}): time.sleep(0.02)\n{COUNT}"
    text = (site / "t.yaml").read_text()
    (site / "t.yaml").write_text(text.replace(json.dumps(COUNT), json.dumps(wait)))
    words = ["data", "submit", "t.yaml", "--yes", "--quiet", "--set", "car=1..", "--limit", "9"]
    with subprocess.Popen([sys.executable, "-m", "assay", *words], cwd=site) as submission:
        while not any(json.loads(run.read_text())["handle"] for run in site.glob("runs/cars/*/*/*/run.json")):
            assert submission.poll() is None
            time.sleep(0.05)
        submission.kill()
    (before,) = [path.read_bytes() for path in kept(site)]
    counted_frames.catalog(site / "c.duckdb", range(40, 90))
    (site / "go").touch()
    assert typed(site, *words).returncode == 0
    (path,) = kept(site)
    assert path.read_bytes() == before
    assert json.loads((path.parents[1] / "run.json").read_text())["adopted"]
    assert (
        f"frames: 9 digest: {read_manifest(path).digest}"
        in (path.parents[1] / "logs" / "rank-0.log").read_text()
    )


def test_without_a_terminal_it_shows_and_does_not_ask(site: Path) -> None:
    done = typed(site, "data", "submit", "t.yaml", "--set", "car=5", "--limit", "1")
    assert done.returncode == 0, done.stderr
    assert "car = 5  (of 0..100)" in done.stderr
    assert "camera = 'cam_front_left'  (of cam_front_center, cam_front_left)  by default" in done.stderr
    assert "Frames now: 1 of 40, drawn by seed 1, 110 B, digest " in done.stderr
    assert "where: (unknown = 0) and car = 5 and camera = 'cam_front_left'" in done.stderr


@pytest.mark.long
def test_the_suite_that_it_shows_is_the_one_that_runs(site: Path) -> None:
    words = ("--set", "car=1..", "--set", "fußgänger=..50%", "--set", "scene=s1, it's", "--limit", "2")
    found = shown(site, *words)
    done = submit(site, "--dry-run", *words)
    lines = done.stdout.partition("The suite that it becomes:\n")[2].partition("\n\n")[0].splitlines()
    (site / "suite.yaml").write_text("\n".join(line.removeprefix("  ") for line in lines))
    planned = json.loads(typed(site, "plan", "suite.yaml", "--json").stdout)
    assert planned["trials"] == [found["first"]["trial"]]


@pytest.mark.long
def test_it_runs_as_a_job_of_lsf(site: Path, lsf: object) -> None:
    done = submit(site, "--set", "car=5", "--limit", "1", "--system", "power", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (path,) = kept(site)
    assert found["data_job"]["frames"]["digest"] == read_manifest(path).digest
    assert (
        f"frames: 1 digest: {read_manifest(path).digest}"
        in (path.parents[1] / "logs" / "rank-0.log").read_text()
    )
    assert json.loads((path.parents[1] / "run.json").read_text())["handle"]["launcher"] == "lsf"


@pytest.mark.long
@pytest.mark.parametrize("system", long_but(1, ["cloud", "batch", "power"]))
def test_every_launcher_sends_the_manifest(site: Path, system: str) -> None:
    found = shown(site, "--set", "car=5", "--limit", "1", "--system", system, "--shape", "2x1")
    assert found["suite"]["systems"] == [system]
    sends = found["first"]["sends"]
    if not sends["whole"]:
        assert set(sends["files"]) == {"manifest.jsonl"}
        return
    objects = list(YAML(typ="safe", pure=True).load_all(sends["command"]))
    packed = b"".join(
        base64.b64decode(part) for one in objects for part in one.get("binaryData", {}).values()
    )
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("manifest.jsonl")]
        member = archive.extractfile(name)
        assert member is not None
        assert found["frames"]["digest"].encode() in member.read()


@pytest.mark.long
def test_a_secret_among_the_parameters_is_written_nowhere(site: Path) -> None:
    text = (
        (site / "t.yaml")
        .read_text()
        .replace("metrics:", "env: {API_TOKEN: hunter2-plain-secret}\n  metrics:")
    )
    text += "free:\n  image: {}\n"
    (site / "t.yaml").write_text(text)
    words = ("--set", "car=5", "--limit", "1", "--param", "image=https://me:pass-word-9@registry.example/x")
    dry = [submit(site, "--dry-run", *words), submit(site, "--dry-run", "--json", *words)]
    dry.append(submit(site, *words, "--param", "api_key=other-secret-8"))
    done = submit(site, *words)
    assert done.returncode == 0, done.stderr
    printed = "".join(part for one in (*dry, done) for part in (one.stdout, one.stderr))
    written = "".join(p.read_text(errors="replace") for p in (site / "runs").rglob("*") if p.is_file())
    for secret in ("hunter2-plain-secret", "pass-word-9", "other-secret-8"):
        assert secret not in printed
        assert secret not in written


def test_a_suite_may_choose_frames_too_and_a_wrong_condition_has_its_line(site: Path) -> None:
    params = {"argv": ["true"], "metrics": {"x": {"pattern": "(?P<value>1)"}}}
    suite = {"suite": "s", "workload": "command", "repeats": 1, "systems": ["local"]}
    choose = {"catalog": "c.duckdb", "where": "cat > 1"}
    (site / "s.json").write_text(json.dumps({**suite, "params": {**params, "choose": choose}}))
    done = typed(site, "plan", "s.json")
    assert (done.returncode, "there is no class or column 'cat'" in done.stderr) == (4, True)
    choose["where"] = "car > 100"
    (site / "s.json").write_text(json.dumps({**suite, "params": {**params, "choose": choose}}))
    done = typed(site, "run", "s.json")
    assert (done.returncode, "no frame satisfies the condition 'car > 100'" in done.stderr) == (4, True)
    (site / "s.json").write_text(json.dumps({**suite, "params": {**params, "choose": choose, "cwd": "."}}))
    assert "leave out cwd" in typed(site, "plan", "s.json").stderr


def test_chosen_frames_are_staged_before_the_run_by_suite_and_template(tmp_path: Path) -> None:
    pytest.importorskip("pyspng")
    root = made_a2d2.make(tmp_path / "a2d2", frames=6)
    api.scan_data(root, catalog=tmp_path / "c.duckdb", processes=1)
    count = (
        "import os, pathlib; near = pathlib.Path(os.environ['ASSAY_DATA']); "
        "assert pathlib.Path(os.environ['ASSAY_MANIFEST']).read_text().count('\\n') == 4, 'manifest'; "
        "print('files:', len(list(near.rglob('*.png'))), near.name)"
    )
    template = {
        "template": "near",
        "catalog": "c.duckdb",
        "labels": {"scene": {"choices": list(made_a2d2.SCENES)}},
        "workload": "command",
        "params": {
            "argv": ["{python}", "-c", count],
            "metrics": {"files": {"pattern": "files: (?P<value>.)"}},
        },
        "data": {"to": str(tmp_path / "cache"), "space": "10MB"},
    }
    (tmp_path / "t.yaml").write_text(json.dumps(template))
    done = submit(tmp_path, "--set", f"scene={made_a2d2.SCENES[1]}")
    assert done.returncode == 0, done.stderr
    (attempt,) = tmp_path.glob("runs/near/*/*/attempt-1")
    chosen = read_manifest(attempt / "inputs" / "manifest.jsonl")
    assert {frame.label.partition("/")[0] for frame in chosen.frames} == {made_a2d2.SCENES[1]}
    assert f"files: 6 {set_name(chosen)}" in (attempt / "logs" / "rank-0.log").read_text()
    assert json.loads((attempt / "logs" / "staging-0.log").read_text())["copied_files"] == 7
    (tmp_path / "m.jsonl").write_text("")
    suite = {"suite": "s", "workload": "command", "systems": ["local"], "repeats": 1}
    choose = {"catalog": "c.duckdb"}
    for params, data, said in (
        (choose, {"manifest": "m.jsonl"}, "the parameter choose makes it"),
        (None, {}, "choose them with the parameter choose"),
    ):
        own = template["params"] | ({} if params is None else {"choose": params})
        whole = suite | {"params": own, "data": {"to": "/cache", **data}}
        (tmp_path / "s.json").write_text(json.dumps(whole))
        refused = typed(tmp_path, "plan", "s.json")
        assert (refused.returncode, said in refused.stderr) == (4, True)


@pytest.mark.parametrize(
    "text", ["", "..", "1..2..3", "1%..2", "a..b", "5..1", "1e3..", "%..5", "٣..٤", "1" * 16]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|both ends|begins above"):
        parse_range(text)


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.booleans())
def test_a_range_reads_as_it_is_written(low: int, more: int, share: bool) -> None:
    sign = "%" if share else ""
    found = parse_range(f"{low}{sign}..{low + more}{sign}")
    assert parse_range(str(found)) == found
    assert found.contains(low)
    assert not found.contains(low - 1)


def test_a_job_notices_frames_that_changed_while_it_waited(tmp_path: Path) -> None:
    frames = [ChosenFrame(f"{n}.label", f"{n}.image", 3, 4) for n in range(3)]
    for frame in frames:
        (tmp_path / frame.label).write_text("abc")
        (tmp_path / frame.image).write_text("abcd")
    assert changed(tmp_path, frames) == []
    (tmp_path / "1.label").unlink()
    (tmp_path / "2.image").write_text("abcde")
    assert changed(tmp_path, frames) == [
        f"{tmp_path / '1.label'}: No such file or directory",
        f"{tmp_path / '2.image'} has 5 bytes instead of 4",
    ]


def test_the_library_reports_the_same(site: Path) -> None:
    job = api.data_job(site / "t.yaml", labels={"car": "5"}, limit=1)
    assert (len(job.manifest.frames), job.filled.system, len(job.plan.plan.trials)) == (1, "local", 1)
    with pytest.raises(InputError, match="is missing"):
        api.data_job(site / "t.yaml")


def test_the_page_has_every_key_and_its_template_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "data-jobs.md").read_text()
    assert [key for key in TemplateFile.model_fields if f"`{key}`" not in page and key != "about"] == []
    (tmp_path / "t.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    found = read_template(tmp_path / "t.yaml", PARAMS)
    assert found.content.template == "pedestrians"
    shape = api.schema("template")
    assert set(shape["properties"]) == set(TemplateFile.model_fields)

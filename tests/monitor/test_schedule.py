"""Short suites that run again and again: what is printed, and that systemd, Slurm and Kubernetes take it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
import nvml_stand_in
from assay import api, cli
from assay.errors import HostError, InputError
from assay.launch.kubernetes.objects import pod_security, rbac
from assay.monitor.questions.schedule import schedule
from assay.monitor.schedule import HOUR, _gpu_load, schedule_period, scrontab_lines, service_unit
from command_line import assay as typed
from conftest import require
from slurm_cluster import slurm_cluster  # noqa: F401 - a fixture

SUITE = """\
suite: quick
workload: disk
params: {directory: /tmp, size_bytes: 16777216, min_time_s: 0.2}
repeats: 2
systems: [here, lab, batch]
"""
SYSTEMS = """\
here: {launcher: local}
lab: {launcher: kubernetes, namespace: bench, context: mine, image: python:3}
batch: {launcher: slurm, partition: batch}
"""


PERIODS = [300, 360, 600, 720, 900, 1200, 1800, *(hours * 3600 for hours in (1, 2, 3, 4, 6, 8, 12, 24, 168))]


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "systems.yaml").write_text(SYSTEMS)
    (tmp_path / "quick.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "quick.yaml"


def assay(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.assay, ["monitor", *map(str, words)])


def objects(quick: Path, **options: Any) -> dict[str, dict[str, Any]]:
    made = schedule(quick, system="lab", **{"image": "assay:1", **options})
    (text,) = made.files.values()
    return {obj["kind"]: obj for obj in YAML(typ="safe", pure=True).load_all(text)}


# Periods


@pytest.mark.parametrize(
    ("every", "cron", "calendar"),
    [
        (900, "2-59/15 * * * *", "*:2/15"),
        (3600, "17 * * * *", "*:17"),
        (6 * 3600, "17 */6 * * *", "0/6:17"),
        (86400, "17 3 * * *", "*-*-* 03:17:00"),
        (7 * 86400, "17 3 * * 0", "Sun *-*-* 03:17:00"),
    ],
)
def test_a_period_is_the_same_for_cron_and_systemd(
    every: int, cron: str, calendar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.monitor.schedule.crc32", lambda _name: 77)
    made = schedule_period(every, "quick")
    assert (made.cron(), made.calendar()) == (cron, calendar)


@pytest.mark.parametrize("seconds", PERIODS)
def test_systemd_reads_a_calendar_as_its_period(seconds: int) -> None:
    analyze = shutil.which("systemd-analyze")
    require("systemd", analyze is not None, "systemd-analyze is not on the path")
    calendar = schedule_period(seconds, "quick").calendar()
    asked = [str(analyze), "calendar", "--iterations=9", calendar]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, env={"TZ": "UTC"}).stdout
    found = re.findall(r"(?:Next elapse|Iter\. #\d+|Iteration #\d+): \w+ ([\d-]+ [\d:]+) UTC", said)
    times = [datetime.fromisoformat(time).timestamp() for time in found]
    assert len(times) == 9, said
    assert {after - before for before, after in pairwise(times)} == {seconds}


@pytest.mark.parametrize("every", ["7min", "45min", "5h", "2d", "1s", "90s", "0", "soon"])
def test_a_period_that_cron_can_not_express_is_refused_with_those_that_it_can(
    quick: Path, every: str
) -> None:
    said = assay("schedule", quick, "--system", "here", "--every", every)
    assert isinstance(said.exception, InputError)
    assert f"every {every}" in str(said.exception)


# What is scheduled


def test_a_trial_of_minutes_is_refused(quick: Path) -> None:
    quick.write_text(SUITE.replace("0.2", "300"))
    with pytest.raises(InputError, match=r"disk on here takes about 10 min; .* --max-trial"):
        schedule(quick, system="here")
    assert schedule(quick, system="here", max_trial="20min").form == "systemd"


def test_a_session_longer_than_its_period_is_refused(quick: Path) -> None:
    quick.write_text(SUITE.replace("repeats: 2", "repeats: 100").replace("0.2", "5"))
    with pytest.raises(InputError, match=r"a session on here takes about .* raise --every"):
        schedule(quick, system="here", every="15min")


def test_an_unknown_length_is_said(quick: Path) -> None:
    quick.write_text("suite: quick\nworkload: digits\nsystems: [here]\n")
    (note,) = schedule(quick, system="here").notes
    assert note.startswith("How long digits takes is unknown")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--system", "her"], "her"),
        (["--system", "lab"], "--image: name the image with Assay"),
        (["--system", "here", "--as", "cronjob", "--image", "a"], "a CronJob is for Kubernetes"),
        (["--system", "here", "--as", "scrontab"], "scrontab is Slurm's"),
        (["--system", "here", "--image", "a"], "--image is for a CronJob"),
        (["--system", "lab", "--image", "a", "--textfile", "a.prom"], "--textfile is not for a CronJob"),
    ],
)
def test_what_does_not_fit_is_refused(quick: Path, words: list[str], said: str) -> None:
    result = assay("schedule", quick, *words)
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)


def test_json_has_the_files(quick: Path) -> None:
    said = json.loads(assay("schedule", quick, "--system", "here", "--json").stdout)
    assert said["form"] == "systemd"
    assert sorted(said["files"]) == ["assay-quick-here.service", "assay-quick-here.timer"]


# CronJob


def test_pods_have_the_lowest_priority_and_preempt_nothing(quick: Path) -> None:
    made = objects(quick)
    assert made["PriorityClass"]["value"] == -(2**31)
    assert made["PriorityClass"]["preemptionPolicy"] == "Never"
    name = made["PriorityClass"]["metadata"]["name"]
    spec = made["CronJob"]["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["priorityClassName"] == name
    systems = YAML(typ="safe", pure=True).load(made["ConfigMap"]["data"]["systems.yaml"])
    assert systems == {
        "lab": {
            "priorityClassName": name,
            "launcher": "kubernetes",
            "image": "python:3",
            "namespace": "bench",
        }
    }


def test_a_priority_of_the_system_stays(quick: Path) -> None:
    (quick.parent / "systems.yaml").write_text(SYSTEMS.replace("context: mine", "priorityClassName: own"))
    assert "priorityClassName: own" in objects(quick)["ConfigMap"]["data"]["systems.yaml"]


def test_both_pods_pass_the_level_restricted_and_have_no_more_rights_than_the_launcher(quick: Path) -> None:
    made = objects(quick)
    for pod in (
        made["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        made["Deployment"]["spec"]["template"]["spec"],
    ):
        assert pod_security.level(pod) == "restricted"
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert made["Deployment"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert made["Role"]["rules"] == rbac.rules(rbac.needed("auto"))
    assert "ClusterRole" not in made


def test_the_command_is_words_and_no_shell(quick: Path) -> None:
    pod = objects(quick, baseline="quick/2026")["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["assay"]
    assert container["args"][:4] == ["run", "/assay/files/suite.yaml", "--system", "lab"]
    assert container["args"][-2:] == ["--baseline", "quick/2026"]


def test_an_existing_claim_is_used_and_none_made(quick: Path) -> None:
    assert "PersistentVolumeClaim" in objects(quick)
    made = objects(quick, claim="mine", namespace="other")
    assert "PersistentVolumeClaim" not in made
    volumes = made["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in volumes
    assert {obj["metadata"].get("namespace", "other") for obj in made.values()} == {"other"}


@pytest.mark.parametrize("files", [["./more.py"], ["{folder}/more.py"]])
def test_a_suite_that_names_files_is_refused(quick: Path, tmp_path: Path, files: list[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (other, quick.parent):
        (folder / "more.py").write_text("")
    metric = {"pattern": "rate (?P<value>[0-9.]+)", "unit": "x/s", "better": "higher"}
    named = [name.replace("{folder}", str(other)) for name in files]
    params = {"argv": ["{python}", "more.py"], "files": named, "metrics": {"rate": metric}}
    suite = {"suite": "quick", "workload": "command", "params": params, "systems": ["lab"]}
    quick.write_text(json.dumps(suite))
    with pytest.raises(InputError, match=r"more\.py: a CronJob's pod has no other files"):
        objects(quick)


def test_a_directory_relative_to_the_suite_is_refused(quick: Path) -> None:
    quick.write_text(SUITE.replace("/tmp", str(quick.parent / "data")))
    with pytest.raises(InputError, match="by an absolute path"):
        objects(quick)


def test_a_secret_is_never_put_into_a_config_map(quick: Path) -> None:
    secret = "hf_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7"
    (quick.parent / "systems.yaml").write_text(
        SYSTEMS.replace("context: mine", f"env: {{HF_TOKEN: {secret}}}")
    )
    with pytest.raises(InputError, match="looks like a secret") as said:
        objects(quick)
    assert secret not in str(said.value)


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_cron_job_runs_the_suite_and_its_exporter_serves_the_result(quick: Path) -> None:
    import scheduled_pods

    with scheduled_pods.applied(quick) as space:
        log = scheduled_pods.run_once(space, "assay-quick-lab")
        assert "Stored in /assay/runs/quick/" in log
        metrics = scheduled_pods.metrics(space, "assay-quick-lab-exporter")
        assert 'assay_result{benchmark="disk"' in metrics
        assert "assay_exporter_read_errors_total 0.0" in metrics
        for seconds in PERIODS:
            cron = f"--schedule={schedule_period(seconds, 'quick').cron()}"
            cluster.kubectl("create", "cronjob", "any", cron, "--image=any", "--dry-run=server")


# systemd


def test_systemd_accepts_both_units(quick: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    require("systemd", verify is not None, "systemd-analyze is not on the path")
    made = schedule(quick, system="here", every="15min", textfile="/var/lib/a b/100%/$x.prom")
    folder = tmp_path / "units"
    folder.mkdir()
    for name, text in made.files.items():
        (folder / name).write_text(text)
    files = sorted(map(str, folder.iterdir()))
    done = subprocess.run([str(verify), "verify", *files], capture_output=True, text=True, check=False)
    of_ours = [line for line in done.stderr.splitlines() if "assay-quick" in line]
    assert (done.returncode, of_ours) == (0, [])


def test_words_that_systemd_would_expand_are_quoted() -> None:
    text = service_unit(
        suite="a%b",
        system="s",
        directory=Path("/d%/x"),
        command=["/bin/assay", "run", "a b", "$HOME", '"', "50%", ""],
        idle=["/bin/assay", "monitor", "idle"],
        export=[],
        period=schedule_period(HOUR, "a"),
    )
    assert 'ExecStart=/bin/assay run "a b" $$HOME "\\"" 50%% ""\n' in text
    assert "Description=Assay: a%%b on s\n" in text
    assert "WorkingDirectory=/d%%/x\n" in text
    assert "ExecCondition=/bin/assay monitor idle\n" in text


def test_only_where_trials_run_here_idleness_is_checked_here(quick: Path) -> None:
    made = schedule(quick, system="batch", form="systemd")
    assert "ExecCondition" not in made.files["assay-quick-batch.service"]
    assert "other machines by slurm" in made.notes[-1]


# Slurm


def test_a_line_of_scrontab_drives_the_suite_and_says_what_the_trials_lack(quick: Path) -> None:
    made = schedule(quick, system="batch", textfile="/shared/assay.prom")
    warning, *lines = made.files["scrontab"].splitlines()
    assert warning.startswith("# Add these lines with `scrontab -e`")
    assert "#SCRON --nice=100000" in lines
    assert "#SCRON --partition=batch" in lines
    assert " run " in lines[-1]
    assert "; " in lines[-1]
    assert lines[-1].endswith(f"--runs {quick.parent}/runs")
    assert 'exclusive: true, sbatch: ["--nice=100000"]' in made.notes[-1]
    (quick.parent / "systems.yaml").write_text(
        SYSTEMS.replace("partition: batch", 'partition: batch, exclusive: true, sbatch: ["--nice=9"]')
    )
    assert schedule(quick, system="batch").notes == ()


@pytest.mark.parametrize("directory", ["/a b", "/a%j", "/a'b"])
def test_a_directory_that_slurm_would_read_otherwise_is_refused(directory: str) -> None:
    with pytest.raises(ValueError, match="move it elsewhere"):
        scrontab_lines(
            name="quick",
            directory=Path(directory),
            commands=[["assay"]],
            options=[],
            period=schedule_period(HOUR, "quick"),
        )


@pytest.mark.slurm
@pytest.mark.usefixtures("slurm_cluster")
def test_slurm_would_accept_a_job_with_these_options(quick: Path) -> None:
    (quick.parent / "systems.yaml").write_text(SYSTEMS.replace(", partition: batch", ""))
    lines = schedule(quick, system="batch").files["scrontab"].splitlines()
    options = [line.removeprefix("#SCRON ") for line in lines if line.startswith("#SCRON ")]
    asked = ["sbatch", "--test-only", *options, "--wrap=true"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Idleness


def test_a_busy_machine_is_not_idle_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.monitor.schedule.BUSY_CPU_SHARE", -1.0)
    said = assay("idle", "--for", "0.5s")
    assert said.exit_code == 1
    assert "CPUs are busy" in said.output


def test_an_idle_machine_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.monitor.schedule.BUSY_CPU_SHARE", 2.0)
    said = assay("idle", "--for", "0.5s", "--json")
    assert said.exit_code == 0
    assert json.loads(said.stdout)["idle"] is True


@pytest.mark.parametrize(
    ("values", "reasons"),
    [
        ({"utilization_percent": 0.0, "memory_used_bytes": 5e8}, 0),
        ({"utilization_percent": 97.0, "memory_used_bytes": 5e10}, 2),
        ({"memory_used_bytes": 5e10}, 1),
        ({}, 1),
        (None, 1),
    ],
)
def test_a_gpu_is_idle_only_if_it_says_so(values: dict[str, float] | None, reasons: int) -> None:
    assert len(_gpu_load(values)) == reasons


def test_a_real_sampler_sees_a_gpu_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_stand_in.library(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("NVML_STAND_IN", nvml_stand_in.table(tmp_path, gpus=1))
    said = assay("idle", "--for", "1s", "--json")
    assert said.exit_code == 1
    found = json.loads(said.stdout)
    assert found["gpus"] == 1
    assert "GPU 0 is used at 97 %; idle is at most 5 %" in found["reasons"]


def test_an_unknown_load_is_an_error_and_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.monitor.schedule.watch", lambda *_: iter(()))
    with pytest.raises(HostError, match="can't tell whether this machine is idle"):
        api.idleness(for_=0.5)


def test_names_that_kubernetes_refuses_and_times_that_are_none_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (("monitor", "rules", "--kubernetes", "--name", 'A B: "x"'), "is no name of an object"),
        (("monitor", "dashboards", "--kubernetes", "--namespace", "A;B"), "is no name of an object"),
        (("watch", "--pid", "1", "--for", "-5s"), "expected a time above 0"),
        (("monitor", "idle", "--for", "0"), "expected a time above 0"),
        (("watch", "--every", "nan"), "is not a duration"),
    ):
        done = typed(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr

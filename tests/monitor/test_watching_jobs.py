"""Jobs of a real Slurm and a real Kubernetes are watched in all of their places, and nothing stays there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.errors import HostError
from assay.monitor import watching_jobs
from assay.monitor.watching_jobs import SamplerCommand, watch
from assay_payloads.sampling.beside import FROM_INPUT
from command_line import assay as typed
from kubernetes_cluster import IMAGE, kubectl, namespace
from slurm_cluster import said, slurm_cluster  # noqa: F401 - a fixture

BUSY = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
HERE = (sys.executable, "-I", "-S", "-c", FROM_INPUT)


def documents(text: str) -> list[dict[str, object]]:
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(document)
        rest = rest[end:].strip()
    return found


@pytest.mark.slurm
def test_a_job_of_slurm_is_watched_on_each_of_its_nodes(
    tmp_path: Path,
    slurm_cluster: None,  # noqa: F811
) -> None:
    script = f"srun {sys.executable} -c '{BUSY.format(60)}'"
    words = ("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--time=2", "--output=/dev/null")
    job = said(*words, f"--chdir={tmp_path}", "--wrap", script).strip()
    try:
        give_up = time.monotonic() + 60
        while said("squeue", "-h", "-j", job, "-o", "%T").strip() != "RUNNING":
            assert time.monotonic() < give_up
            time.sleep(0.2)
        watched = typed(tmp_path, "watch", "--slurm-job", job, "--every", "0.5", "--for", "8s", "--json")
        assert watched.returncode == 0, watched.stderr
        *samples, last = documents(watched.stdout)
        assert len(samples) >= 2
        summary = last["summary"]
        assert isinstance(summary, dict)
        assert len(summary) == 2
        assert all(one["job_mean_cpu_cores"] > 0.05 for one in summary.values())
        assert said("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    finally:
        said("scancel", job)
    again = typed(tmp_path, "watch", "--slurm-job", job)
    assert again.returncode == 4
    assert "it can be watched while it runs" in again.stderr or "no such job" in again.stderr


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "spin"},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"runAsNonRoot": True, "runAsUser": 12345},
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "imagePullPolicy": "IfNotPresent",
                        "securityContext": {
                            "readOnlyRootFilesystem": True,
                            "allowPrivilegeEscalation": False,
                        },
                        "command": ["python3", "-c", BUSY.format(600)],
                    }
                ],
            }
        },
    },
}


@pytest.mark.kubernetes
def test_a_job_of_kubernetes_is_watched_in_each_pod_and_leaves_no_process(tmp_path: Path) -> None:
    with namespace() as name:
        kubectl("-n", name, "apply", "-f", "-", stdin=json.dumps(JOB))
        kubectl("-n", name, "wait", "--for=condition=Ready", "pod", "-l", "job-name=spin", "--timeout=90s")
        watched = typed(
            tmp_path, "watch", "--kubernetes", f"{name}/spin", "--every", "0.5", "--for", "8s", "--json"
        )
        assert watched.returncode == 0, watched.stderr
        summary = documents(watched.stdout)[-1]["summary"]
        assert isinstance(summary, dict)
        assert len(summary) == 2
        assert all(one["job_mean_cpu_cores"] > 0.1 for one in summary.values())
        pod = kubectl("-n", name, "get", "pods", "-l", "job-name=spin", "-o", "name").split()[0]
        processes = kubectl("-n", name, "exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline")
        assert "modules = json.loads" not in processes
        none = typed(tmp_path, "watch", "--kubernetes", f"{name}/other")
        assert none.returncode == 4
        assert "no running pod has this job's name" in none.stderr


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--slurm-job", "x; rm"), "is no number of a job"),
        (("--kubernetes", "spin"), "write it as NAMESPACE/JOB"),
        (("--kubernetes", "a/b;c"), "write it as NAMESPACE/JOB"),
        (("--kubernetes", "-n/b"), "is no namespace"),
        (("--kubernetes", "a/b", "--every", "2h"), "choose between"),
    ],
)
def test_what_is_no_job_is_an_error(tmp_path: Path, words: tuple[str, ...], cause: str) -> None:
    ran = typed(tmp_path, "watch", *words)
    assert ran.returncode == 4
    assert cause in ran.stderr
    assert "Nothing is running" in typed(tmp_path, "watch").stdout
    assert typed(tmp_path, "watch", "demo", "--pid", "1").returncode == 2
    assert typed(tmp_path, "watch", "--pid", "1", "--slurm-job", "1").returncode == 2


def test_the_sampler_arrives_through_its_input_and_ends_when_that_is_closed(tmp_path: Path) -> None:
    argv = (*HERE, "container", "job", "0.1")
    with subprocess.Popen(
        argv, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={}
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(watching_jobs.modules() + "\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(":::ASSAY-TELEMETRY ")
        while not process.stdout.readline().startswith("n "):
            pass
        process.stdin.close()
        assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_places_that_fail_are_named_and_the_others_are_sampled() -> None:
    broken = SamplerCommand((sys.executable, "-c", "import sys; sys.exit('no python here')"), ("n2",))
    works = SamplerCommand((*HERE, "container", "job", "0.1"), ("n1",))
    *_, last = watch("job", [works, broken], 3.0)
    assert last.failed == {"n2": "no python here"}
    assert None in last.places["n1"].latest
    with pytest.raises(HostError, match="nothing could be sampled; n2: no python here"):
        list(watch("job", [broken], 3.0))
    with pytest.raises(HostError, match="needed to reach the job"):
        list(watch("job", [SamplerCommand(("/no/such/program",), ("n1",))], 1.0))


def test_numbered_lines_go_to_their_place() -> None:
    program = (
        "import json, sys, time\nsys.stdin.readline()\n"
        "head = {'version': 1, 'started_at': 1.0, 'period_s': 1.0, 'node': ['v'], 'gpu': [], 'gpus': []}\n"
        "for n in (1, 0): print(f'{n}: :::ASSAY-TELEMETRY {json.dumps(head)}', flush=True)\n"
        "for n in (0, 1, 7): print(f'{n}: n 1 {n + 5} .', flush=True)\n"
        "print('slurmstepd: what', flush=True)\n"
    )
    command = SamplerCommand((sys.executable, "-c", program), ("n0", "n1"), numbered=True)
    *_, last = watch("job", [command])
    assert {place: one.latest[None].values for place, one in last.places.items()} == {
        "n0": {"v": 5.0},
        "n1": {"v": 6.0},
    }

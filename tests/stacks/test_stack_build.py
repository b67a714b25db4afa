"""`assay stack build`: real builds and pushes to a real registry, and what is rendered for clusters."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

import custom_resources
from assay.errors import EXIT_INPUT, EXIT_INTERRUPTED, HostError, InputError
from assay.shell import CommandTimeoutError
from assay.stacks.build import build_stack, render_build
from assay.stacks.engines import ENGINES, build, run_smoke_test
from command_line import assay as typed
from conftest import require
from fake_engine import IMAGE_ID, calls, fake_engine
from stack_image import BASE, engines_here

FILE = 'FROM registry.lab/base:1\nUSER 1001:0\nRUN pip check \\\n    && python3 -c "import json, csv"\n'
# Enough of a stack to be built in a second: the base has Python.
SMALL = f"FROM {BASE}\nENV HOME=/home/anybody\nRUN install --directory --group=0 --mode=0775 /home/anybody\n"
SECRET = "registry-login"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "Containerfile").write_text(FILE)
    return tmp_path / "Containerfile"


@cache
def openshift_definitions() -> dict[str, Any]:
    """OpenShift's own schemas, which refuse fields that they don't know."""
    (folder,) = (path for path, _ in custom_resources.fetched() if "openshift/api" in str(path))
    definitions: dict[str, Any] = json.loads((folder / "openapi" / "openapi.json").read_text())["definitions"]
    for one in definitions.values():
        if "properties" in one:
            one["additionalProperties"] = False
    return definitions


def need_valid(manifest: dict[str, Any]) -> None:
    """Raise ValidationError for what OpenShift's API does not accept."""
    group, _, version = manifest["apiVersion"].partition(".openshift.io/")
    name = f"com.github.openshift.api.{group}.{version}.{manifest['kind']}"
    schema = {"$ref": f"#/definitions/{name}", "definitions": openshift_definitions()}
    jsonschema.Draft4Validator(schema).validate(manifest)  # without checking 3 MB of schemas first


def test_openshift_gets_a_build_and_an_image_stream_that_its_schemas_accept(file: Path) -> None:
    objects = render_build(file, "openshift", name="stack", namespace="lab")
    assert [one["kind"] for one in objects] == ["ImageStream", "BuildConfig"]
    for one in objects:
        need_valid(one)
    spec = objects[1]["spec"]
    assert spec["source"]["dockerfile"] == FILE
    assert spec["output"]["to"] == {"kind": "ImageStreamTag", "name": "stack:latest"}
    assert spec["postCommit"]["command"][-2:] == ["json", "csv"], "the file's modules are tested"
    wrong = {**objects[1], "spec": {**spec, "nonesuch": 1}}
    with pytest.raises(jsonschema.ValidationError, match="nonesuch"):
        need_valid(wrong)


def test_openshift_pushes_to_a_registry_with_a_secret_that_is_only_named(file: Path) -> None:
    (config,) = render_build(file, "openshift", name="stack", push="registry.lab:5000/a/b:1", secret=SECRET)
    need_valid(config)
    to = {"kind": "DockerImage", "name": "registry.lab:5000/a/b:1"}
    assert config["spec"]["output"] == {"to": to, "pushSecret": {"name": SECRET}}


def test_what_openshift_gets_is_printed_whole(file: Path) -> None:
    words = ["--push", "registry.lab/a:1", "--push-login", SECRET, "--render", "openshift"]
    done = typed(file.parent, "stack", "build", str(file), "--tag", "stack", *words)
    (config,) = render_build(file, "openshift", name="stack", push="registry.lab/a:1", secret=SECRET)
    assert YAML(typ="safe").load(done.stdout) == config


def test_kubernetes_gets_a_job_that_builds_tests_and_pushes(file: Path) -> None:
    words = ["stack", "build", str(file), "--tag", "stack", "--render", "kubernetes"]
    words += ["--push", "registry.lab/stack:1", "--push-login", SECRET, "--namespace", "lab"]
    done = typed(file.parent, *words)
    assert done.returncode == 0, done.stderr
    objects = [one for one in YAML(typ="safe").load_all(done.stdout) if one]
    for one in objects:
        kubernetes_validate.validate(one, "1.34", strict=True)
    files, job = objects
    assert files["data"]["Containerfile"] == FILE
    pod = job["spec"]["template"]["spec"]
    script = pod["containers"][0]["command"][2]
    assert script.index("buildah build") < script.index("buildah run") < script.index("buildah push")
    variables = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert variables["IMAGE"] == "registry.lab/stack:1"
    assert pod["containers"][0]["command"][-2:] == ["json", "csv"], "the file's modules are tested"
    assert {"name": "auth", "secret": {"secretName": SECRET}} in pod["volumes"]
    assert typed(file.parent, *words).stdout == done.stdout


def job_of(file: Path, **options: Any) -> dict[str, Any]:
    """The Job that is rendered, which Kubernetes accepts."""
    (_, job) = render_build(file, "kubernetes", name="stack", push="registry.lab/stack:1", **options)
    kubernetes_validate.validate(job, "1.34", strict=True)
    return job


def test_a_build_on_a_cluster_has_no_token_and_no_more_rights_than_its_user_namespace_takes(
    file: Path,
) -> None:
    job = job_of(file)
    pod = job["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    assert context["runAsNonRoot"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["SETUID", "SETGID"]}
    assert pod["automountServiceAccountToken"] is False
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_builds_of_different_files_are_different_jobs_with_one_label(file: Path) -> None:
    first = job_of(file)["metadata"]
    file.write_text(f"{FILE}# another\n")
    second = job_of(file)["metadata"]
    assert first["name"] != second["name"]
    assert first["labels"] == second["labels"]
    assert first["labels"]["app.kubernetes.io/name"] == "stack"
    longest = render_build(file, "kubernetes", name="s" * 63, push="registry.lab/stack:1")
    for one in longest:
        kubernetes_validate.validate(one, "1.34", strict=True)
        assert len(one["metadata"]["name"]) <= 63


def test_a_build_on_a_cluster_requests_what_is_wanted(file: Path) -> None:
    wanted = {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"memory": "16Gi"}}
    assert job_of(file, **wanted)["spec"]["template"]["spec"]["containers"][0]["resources"] == wanted
    (_, config) = render_build(file, "openshift", name="stack", **wanted)
    need_valid(config)
    assert config["spec"]["resources"] == wanted
    limited = job_of(file, limits={"memory": "2Gi"})["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert limited == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    with pytest.raises(InputError, match="--limit: memory=lots is not a resource"):
        job_of(file, requests={"memory": "1Gi"}, limits={"memory": "lots"})
    with pytest.raises(InputError, match="--request: cpu=4 is more than --limit cpu=2"):
        job_of(file, requests={"cpu": "4"}, limits={"cpu": "2"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tag", "a b"], "--tag: 'a b' is not a name of an image"),
        (["--tag", "a", "--push", "lab"], "--push: 'lab' is not a place in a registry"),
        (["--tag", "a", "--push", "user:pw@reg.lab/x:1"], "--push:"),
        (["--tag", "a", "--import", "os; print(1)"], "--import: 'os; print(1)' is not a module"),
        (["--tag", "a", "--render", "kubernetes"], "--push: a Job has to push the image"),
        (["--tag", "A_b", "--render", "openshift"], "--tag:"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_built(
    file: Path, words: list[str], said: str
) -> None:
    done = typed(file.parent, "stack", "build", str(file), *words)
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RUN true\n", "it has no FROM"),
        ("FROM a\nENV HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n", "it has a credential"),
        ("FROM a\nARG INDEX=https://me:s3cret-pass@pypi.lab/simple\n", "it has a credential"),
    ],
)
def test_a_file_without_a_base_or_with_a_credential_is_refused(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        render_build(file, "openshift", name="stack")


def test_a_file_that_copies_can_not_be_built_on_a_cluster(file: Path) -> None:
    file.write_text("FROM a AS b\nFROM c\nCOPY --from=b /x /x\nCOPY src /src\n")
    with pytest.raises(InputError, match="'COPY src /src': the cluster has no directory to copy from"):
        render_build(file, "openshift", name="stack")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--render", "openshift", "--timeout", "1s", "--no-tls-verify", "--", "--pull"], 3),
        (["--namespace", "lab", "--push-login", "login", "--request", "cpu=2"], 3),
    ],
)
def test_an_option_without_an_effect_is_refused(file: Path, words: list[str], named: int) -> None:
    done = typed(file.parent, "stack", "build", str(file), "--tag", "stack", *words)
    assert done.returncode == EXIT_INPUT
    assert done.stderr.count("it has no effect") == named


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--build-arg=HF_TOKEN"], "the value of HF_TOKEN would be kept by the image's history"),
        (["--build-arg", "DB_PASSWORD"], "the value of DB_PASSWORD would be kept"),
        (["-t", "localhost/x:1"], "use --tag and --push"),
        (["-tlocalhost/x:1"], "use --tag and --push"),
        (["--tag=localhost/x:1"], "use --tag and --push"),
        (["--manifest", "x"], "use --tag and --push"),
        (["--output=x"], "use --tag and --push"),
    ],
)
def test_an_option_that_names_the_image_or_passes_a_secret_is_refused(
    file: Path, options: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        build_stack(file, tag="lab/x", options=tuple(options))  # as the command passes them


def test_a_build_argument_with_a_credential_is_refused(file: Path) -> None:
    argument = "PIP_EXTRA_INDEX_URL=https://me:s3cret-pass@pypi.lab/simple"
    with pytest.raises(InputError, match="which the image's history would keep") as refused:
        build_stack(file, tag="a", options=["--build-arg", argument])
    assert "s3cret-pass" not in str(refused.value)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_what_is_tested_tagged_and_pushed_is_the_image_that_was_built_whoever_else_has_the_tag(
    file: Path, bin_folder: Path
) -> None:
    podman = fake_engine(bin_folder)
    built = build_stack(file, tag="lab/stack:1", push="registry.lab/stack")
    assert built.pushed == f"registry.lab/stack@sha256:{'2' * 64}"
    assert built.image.id == IMAGE_ID
    for command in ("image", "run", "tag", "push"):
        (call,) = calls(podman, command)
        assert IMAGE_ID in call.split(), call
    assert "lab/stack:1" not in calls(podman, "build")[0]
    assert f"docker://registry.lab/stack:{IMAGE_ID[:12]}" in calls(podman, "push")[0]


def test_an_image_that_fails_the_test_does_not_take_the_tag(file: Path, bin_folder: Path) -> None:
    says = json.dumps({"modules": ["json"], "failed": [["import json", "no libx"]]})
    podman = fake_engine(bin_folder, says=f"assay-image-test {says}")
    done = typed(file.parent, "stack", "build", str(file), "--tag", "lab/stack:1")
    assert done.returncode == 1
    assert f"Don't use {IMAGE_ID[:12]}: it does not work as an arbitrary user." in done.stdout
    assert calls(podman, "tag") == []
    assert calls(podman, "rmi") == [f"rmi --no-prune {IMAGE_ID}"]
    typed(file.parent, "stack", "build", str(file), "--tag", "lab/stack:1", "--keep-failed")
    assert len(calls(podman, "rmi")) == 1


def test_layers_from_another_build_stay_when_a_step_fails(file: Path, bin_folder: Path) -> None:
    cached = f"echo '--> Using cache {IMAGE_ID}'; echo '--> {IMAGE_ID[:11]}'"
    podman = fake_engine(bin_folder, build=f"{cached}; exit 1")
    with pytest.raises(HostError, match="podman can't build"):
        build_stack(file, tag="lab/stack:1")
    assert calls(podman, "rmi") == []


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """podman and buildah as this machine can run them, and the base."""
    with engines_here(tmp_path_factory.mktemp("engines")):
        yield


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on 127.0.0.1."""
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        require("registry", False, "docker-registry is not installed")
        return
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "config.yml").write_text(json.dumps(settings))
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([program, "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        for _ in range(200):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.podman
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["podman", "buildah"])
def test_an_image_is_built_tested_as_anybody_and_pushed(
    engine: str, file: Path, engines: None, registry: str
) -> None:
    require("buildah", shutil.which(engine) is not None, f"{engine} is not installed")
    file.write_text(SMALL)
    tag = f"localhost/assay-test/built-{engine}:{os.getpid()}"
    steps: list[str] = []
    try:
        built = build_stack(
            file,
            tag=tag,
            engine=engine,
            push=f"{registry}/lab/{engine}",
            verify_tls=False,
            modules=["json"],
            on_line=steps.append,
        )
        assert built.test.passed, built.test.failed
        inspected = subprocess.run(
            [engine, "inspect", "--type", "image", tag], capture_output=True, check=True
        )
        assert built.image.id.encode() in inspected.stdout, "the tag names it"
        assert any("STEP 3/3" in line for line in steps)
        assert built.pushed is not None
        name, _, digest = built.pushed.partition("@")
        address = f"http://{registry}/v2/lab/{engine}/manifests/{digest}"
        accepted = "application/vnd.oci.image.manifest.v1+json"
        request = urllib.request.Request(address, headers={"Accept": accepted})
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert json.load(reply)["config"]["digest"] == f"sha256:{built.image.id.removeprefix('sha256:')}"
        assert name == f"{registry}/lab/{engine}"
    finally:
        subprocess.run([engine, "rmi", "--force", tag], check=False, capture_output=True)


@pytest.mark.podman
@pytest.mark.slow
def test_an_image_that_does_not_work_as_anybody_is_not_pushed(
    file: Path, engines: None, registry: str
) -> None:
    file.write_text(f"FROM {BASE}\nENV HOME=/root\n")
    tag = f"localhost/assay-test/broken:{os.getpid()}"
    try:
        built = build_stack(
            file, tag=tag, push=f"{registry}/lab/broken", verify_tls=False, modules=["json", "nonesuch"]
        )
    finally:
        subprocess.run(["podman", "rmi", "--force", tag], check=False, capture_output=True)
    assert built.pushed is None
    failed = dict(built.test.failed)
    assert set(failed) == {"home", "import nonesuch"}
    assert "Permission denied" in failed["home"]
    with pytest.raises(OSError, match="404"):
        urllib.request.urlopen(f"http://{registry}/v2/lab/broken/tags/list", timeout=10)


@pytest.mark.podman
@pytest.mark.slow
def test_a_build_that_fails_or_hangs_is_ended_with_its_last_lines(file: Path, engines: None) -> None:
    tag = f"localhost/assay-test/never:{os.getpid()}"
    file.write_text(f"FROM {BASE}\nRUN echo before && echo planted-reason >&2 && exit 7\n")
    with pytest.raises(HostError, match="planted-reason"):
        build_stack(file, tag=tag, modules=["json"])
    file.write_text(f"FROM {BASE}\nRUN sleep 600\n")
    with pytest.raises(CommandTimeoutError, match="not finished within 5 s"):
        build_stack(file, tag=tag, modules=["json"], timeout_s=5)


def pids(word: str) -> list[int]:
    """Processes of this machine, those in containers too, that have this word in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(FileNotFoundError, ProcessLookupError):
                if word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


@pytest.mark.podman
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["podman", "buildah"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_build_that_is_stopped_leaves_no_process_and_no_file(
    engine: str, number: signal.Signals, file: Path, engines: None
) -> None:
    require("buildah", shutil.which(engine) is not None, f"{engine} is not installed")
    temporary = file.parent / "tmp"
    temporary.mkdir()
    lasting = f"{600 + os.getpid()}.{number.value}"  # no other test sleeps for this long
    file.write_text(f"FROM {BASE}\nRUN sleep {lasting}; sleep {lasting}\n")
    words = ["stack", "build", str(file), "--tag", "localhost/assay-test/never:1", "--engine", engine]
    # heeds SIGHUP also where the tests run under nohup; SIGINT: tests/conftest.py
    heeds = "import runpy, signal; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    with subprocess.Popen(
        [sys.executable, "-c", f"{heeds} runpy.run_module('assay', run_name='__main__')", *words],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as build:
        while build.poll() is None and not pids(lasting):
            time.sleep(0.1)
        build.send_signal(number)
        try:
            output, _ = build.communicate(timeout=120)
        finally:
            build.kill()
    assert (build.returncode, b"interrupted" in output) == (EXIT_INTERRUPTED, True), output
    assert pids(lasting) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.podman
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["podman", "buildah"])
def test_a_test_that_hangs_leaves_no_process_and_no_container(
    engine: str, file: Path, engines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("buildah", shutil.which(engine) is not None, f"{engine} is not installed")
    file.write_text(SMALL)
    lasting = f"{600 + os.getpid()}.5"
    monkeypatch.setattr("assay.stacks.engines.smoke_test_argv", lambda *_: ["sleep", lasting])
    monkeypatch.setattr("assay.stacks.engines._TO_START_S", 0.0)
    chosen = ENGINES[engine]
    image, layers = build(chosen, file, context=None, options=(), on_line=print, timeout_s=300)
    try:
        with pytest.raises(CommandTimeoutError):
            run_smoke_test(chosen, image, (), 8.0)
        assert pids(lasting) == []
        tags = chosen.tags()
        assert image in tags
    finally:
        chosen.discard(layers)
    if not layers.cached:
        assert image not in chosen.tags(), "no container holds it"


@pytest.mark.podman
@pytest.mark.slow
def test_a_registry_that_does_not_answer_is_named(file: Path, engines: None) -> None:
    file.write_text(SMALL)
    tag = f"localhost/assay-test/unreachable:{os.getpid()}"
    try:
        with pytest.raises(HostError, match=r"podman can't push to 127\.0\.0\.1:1"):
            build_stack(file, tag=tag, push="127.0.0.1:1/lab/x:1", verify_tls=False, modules=["json"])
    finally:
        subprocess.run(["podman", "rmi", "--force", tag], check=False, capture_output=True)

"""Machines on OpenStack: as they stand on file, what is refused, what OpenStack's own code says of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from assay.cli import assay
from assay.errors import InputError
from conftest import ROOT, SUPPORT, require

GOLDEN = ROOT / "tests" / "golden" / "openstack"
WHOLE = """\
name: gpu-bench
cpus: 32
memory: 256GiB
disk: 100GiB
numa_nodes: 2
gpus: {vendor_id: 10de, product_id: "2330", count: 2, device_type: type-PF}
adapters: {vendor_id: 15b3, product_id: "1021", count: 2, device_type: type-PF}
image: {file: rhel-9.qcow2}
hosts: {dedicated_cpus: 4-63, shared_cpus: 0-3}
servers: {count: 4, network: bench, key: bench}
"""
SHARED = """\
name: vgpu
project: research
cpus: 8
memory: 32GiB
cpu_policy: shared
huge_pages: none
vgpus: {mdev_type: nvidia-474, addresses: ["0000:41:00.4", "0000:41:00.5"]}
hide_hypervisor: true
image: {file: my image.qcow2, firmware: bios}
servers: {count: 1, network: bench, key: bench, apart: soft-anti-affinity}
"""
PLAIN = """\
name: cpu-only
cpus: 4
memory: 8GiB
huge_pages: 2MiB
image: {file: debian.qcow2}
servers: {count: 2, network: bench, key: bench}
"""
FILES = {"passthrough": WHOLE, "vgpu": SHARED, "cpu-only": PLAIN}


def said(tmp_path: Path, text: str, *asked: str) -> str:
    (tmp_path / "machines.yaml").write_text(text)
    done = CliRunner().invoke(assay, ["cluster", "openstack", str(tmp_path / "machines.yaml"), *asked])
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def made(tmp_path: Path, text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(said(tmp_path, text, "--json"))
    assert document["schema"] == "assay.openstack/1"
    return document


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("form", ["commands", "heat", "nova"])
def test_what_is_printed_is_what_is_on_file(tmp_path: Path, name: str, form: str) -> None:
    assert said(tmp_path, FILES[name], "--as", form) == (GOLDEN / f"{name}.{form}").read_text()


@pytest.mark.parametrize("name", FILES)
def test_the_template_that_is_printed_is_the_one_in_json(tmp_path: Path, name: str) -> None:
    printed = said(tmp_path, FILES[name], "--as", "heat")
    assert YAML(typ="safe", pure=True).load(printed) == made(tmp_path, FILES[name])["heat"]


def test_a_machines_nodes_hold_each_of_its_cpus_once_and_all_of_its_memory(tmp_path: Path) -> None:
    specs = made(tmp_path, WHOLE)["extra_specs"]
    cpus = [int(cpu) for node in range(2) for cpu in specs[f"hw:numa_cpus.{node}"].split(",")]
    assert cpus == [*range(32)]
    assert sum(int(specs[f"hw:numa_mem.{node}"]) for node in range(2)) == 256 * 1024


def test_the_example_of_the_document_can_be_used(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "openstack.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert made(tmp_path, example) == made(tmp_path, WHOLE)


def test_a_shell_reads_the_commands_as_they_are_meant(tmp_path: Path) -> None:
    lines = made(tmp_path, SHARED)["commands"]
    (image,) = [shlex.split(line) for line in lines if " image create " in line]
    assert "my image.qcow2" in image
    for line in lines:
        subprocess.run(["sh", "-n"], input=line, text=True, check=True)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("cpus: 32", "cpus: 33"), 1, "numa_nodes: 2 does not divide"),
        (("256GiB", "255GiB"), 1, "each of 2 nodes needs a whole number of 1GiB pages"),
        (("256GiB", "1.5GiB"), 1, "each of 2 nodes needs a whole number"),
        (("256GiB", "1GB"), 3, "1GB is not a whole number of MiB"),
        (("256GiB", "256"), 3, "256 has no unit"),
        (("10de", "NVIDIA"), 6, "gpus.vendor_id"),
        (("count: 4", "count: 0"), 10, "servers.count"),
        (("disk: 100GiB", "disc: 100GiB"), 4, "disk"),
        (("4-63", "all"), 9, "hosts.dedicated_cpus"),
        (("name: gpu-bench", "name: a b; rm"), 1, "name"),
        (("cpus: 32", "cpus: 32\ncpu_policy: shared"), 1, "cpu_policy is shared"),
        (
            ("gpus: {", "vgpus: {mdev_type: nvidia-1, addresses: ['0000:41:00.0']}\ngpus: {"),
            1,
            "set only one of them",
        ),
    ],
)
def test_what_can_not_be_made_is_refused_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        said(tmp_path, WHOLE.replace(*change))
    assert f"machines.yaml:{line}: " in str(refused.value)
    assert words in str(refused.value)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"machines\.yaml:1"):
        said(tmp_path, "- 1\n")


@pytest.mark.parametrize("name", FILES)
def test_a_template_names_no_parameter_or_resource_that_it_does_not_have(tmp_path: Path, name: str) -> None:
    heat = made(tmp_path, FILES[name])["heat"]
    text = json.dumps(heat)
    assert set(re.findall(r'"get_param": "(\w+)"', text)) == heat["parameters"].keys()
    assert set(re.findall(r'"get_resource": "(\w+)"', text)) <= heat["resources"].keys()


# OpenStack's own code

PACKAGES = ("python-openstackclient", "openstack-heat", "nova")


@pytest.fixture(scope="session")
def openstack_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with the client, Heat and nova: ASSAY_TEST_OPENSTACK, else one that is made by pip."""
    given = os.environ.get("ASSAY_TEST_OPENSTACK")
    if given:
        return given
    place = tmp_path_factory.mktemp("openstack")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = str(place / "bin/python")
    # pip takes ten minutes to find versions that fit together, uv seconds
    for install in (
        [python, "-m", "pip", "install", "-q", "uv"],
        [f"{place}/bin/uv", "pip", "install", *PACKAGES],
    ):
        try:
            env = {**os.environ, "VIRTUAL_ENV": str(place)}
            done = subprocess.run(install, env=env, capture_output=True, text=True, check=False, timeout=300)
        except subprocess.TimeoutExpired:
            require("openstack", False, f"{' '.join(install)}: no end in 5 min")
        require("openstack", done.returncode == 0, f"{' '.join(install)}: {done.stderr.strip()[-200:]}")
    return python


class Judges:
    """OpenStack's own code, one process for each kind of question, and what it refuses."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.asked: dict[str, subprocess.Popen[str]] = {}

    def refusal(self, what: str, value: object) -> str | None:
        if what not in self.asked:
            argv = [self.python, "-W", "ignore", str(SUPPORT / "openstack_judges.py"), what]
            pipe, silent = subprocess.PIPE, subprocess.DEVNULL
            self.asked[what] = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=silent, text=True)
        process = self.asked[what]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()
        refused: str | None = json.loads(process.stdout.readline())
        return refused


@pytest.fixture(scope="module")
def judges(openstack_python: str) -> Iterator[Judges]:
    made = Judges(openstack_python)
    yield made
    for process in made.asked.values():
        with process:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.long
def test_the_clients_own_parsers_take_every_command(tmp_path: Path, judges: Judges, name: str) -> None:
    document = made(tmp_path, FILES[name])
    lines = [re.sub(r"\$\(.*?\)", "an-id", line) for line in (*document["commands"], *document["undo"])]
    plain = [
        line.replace("openstack ", "", 1).replace("--os-compute-api-version 2.15 ", "") for line in lines
    ]
    assert judges.refusal("commands", [shlex.split(line) for line in plain]) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.long
def test_novas_own_validators_take_extra_specs_and_aliases(tmp_path: Path, judges: Judges, name: str) -> None:
    document = made(tmp_path, FILES[name])
    aliases = [
        line.removeprefix("alias = ") for line in document["nova"]["hosts"] if line.startswith("alias")
    ]
    asked = {"extra_specs": document["extra_specs"], "aliases": aliases}
    assert judges.refusal("specs", asked) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.long
def test_heat_itself_takes_the_template(tmp_path: Path, judges: Judges, name: str) -> None:
    assert judges.refusal("template", made(tmp_path, FILES[name])["heat"]) is None


@pytest.mark.slow
@pytest.mark.long
def test_the_judges_refuse_what_is_wrong(tmp_path: Path, judges: Judges) -> None:
    document = made(tmp_path, WHOLE)
    template = json.dumps(document["heat"])
    alias = json.dumps({"name": "gpu", "vendor_id": "10de", "device_type": "type-GPU"})
    for what, value, words in (
        ("commands", [["flavor", "create", "--cpus", "3", "x"]], "--cpus"),
        ("specs", {"extra_specs": {"hw:cpu_policy": "mine"}, "aliases": []}, "mine"),
        ("specs", {"extra_specs": {}, "aliases": [alias]}, "type-GPU"),
        ("template", json.loads(template.replace('"vcpus"', '"cpus"')), "cpus"),
        ("template", json.loads(template.replace('"ram": 262144', '"ram": "much"')), "much"),
        ("template", json.loads(template.replace('"anti-affinity"', '"apart"')), "apart"),
        ("template", json.loads(template.replace('"key_name"', '"key"')), "key"),
    ):
        assert words in str(judges.refusal(what, value))

"""Secrets planted wherever a suite can contain one, then searched for in all that Assay wrote or printed."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator, Mapping
from pathlib import Path

from attacks.command import Check, assay, write_suite

PROGRAM = """
import os, sys
print("value 5")
print("seen", *sys.argv[1:], os.environ["DATABASE_URL"], os.environ["SERVICE_URL"])
"""
SPOKEN = (
    ("plan", "suite.yaml"),
    ("plan", "suite.yaml", "--show", "command-1x1-r01"),
    ("run", "suite.yaml"),
    ("show", "attack"),
    ("show", "attack", "--json"),
    ("show", "--json"),
    ("export", "attack", "--format", "json"),
    ("report", "attack", "-o", "page.html"),
)
Planted = Mapping[str, str]  # what it is → the secret
Environment = Mapping[str, str]
WRITTEN_BY_THE_USER = {"suite.yaml", "systems.yaml", "program.py"}


def secrets(folder: Path, count: int, draw: random.Random) -> list[Check]:
    """Use another set of secrets each time."""
    check = Check(
        "a secret reaches its program, and the job's log, but nothing else that Assay writes or prints"
    )
    for number in range(count):
        for plant in (_plant, _plant_by_reference):
            own = folder / str(number) / plant.__name__
            planted, env = plant(own, draw)
            for argv in SPOKEN:
                ended = assay(own, *argv, env=env)
                check.expect(ended.code == 0, f"assay {' '.join(argv)}: {ended}")
                for where, secret in planted.items():
                    check.expect(secret not in ended.text, f"assay {' '.join(argv)} prints {where}")
            for path, where in _found(own, planted):
                check.expect(False, f"{path} holds {where}")
    return [check]


def _text(draw: random.Random, length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "".join(draw.choices(letters, k=length))


def _plant_by_reference(folder: Path, draw: random.Random) -> tuple[Planted, Environment]:
    """A suite that references a secret in Assay's own environment; the program prints whether it has it."""
    secret = _text(draw, 20)
    program = f"import os\nprint('value', 5 if os.environ['GIVEN'] == {secret[::-1]!r}[::-1] else 'nothing')"
    write_suite(folder, program)
    suite = json.loads((folder / "suite.yaml").read_text())
    suite["params"]["env"] = {"GIVEN": {"from_env": "PLANTED"}}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return {"a variable by reference": secret}, {"PLANTED": secret}


def _plant(folder: Path, draw: random.Random) -> tuple[Planted, Environment]:
    """A suite with secrets in its text, by what each is."""

    def text(length: int, letters: str = string.ascii_letters + string.digits) -> str:
        return _text(draw, length, letters)

    planted = {
        "a password in a URL": text(16),
        "a password in a variable's URL": text(16),
        "a bare Hugging Face token": "hf_" + text(34, string.ascii_letters),
        "a bare GitHub token": "ghp_" + text(36),
        "a bare cloud key": "AKIA" + text(16, string.ascii_uppercase + string.digits),
        "the value after -p": text(16),
        "a variable named for a secret": text(20),
        "the system's variable": text(20),
        "a password in JSON": text(16),
        "a name and value pair": text(16),
        "a connection string": text(16),
        "a signed URL": text(32, string.hexdigits[:16]),
        "curl -u": text(16),
        "redis-cli -a": text(16),
        "a pod's template": text(16),
    }
    url = "https://user:{}@example.org/data"
    arguments = ["--url", url.format(planted["a password in a URL"]), "-p", planted["the value after -p"]]
    bare = ("a bare Hugging Face token", "a bare GitHub token", "a bare cloud key")
    arguments += [planted[name] for name in bare]
    inner = {
        "password": planted["a password in JSON"],
        "env": [{"name": "DB_PASSWORD", "value": planted["a name and value pair"]}],
    }
    arguments += [
        f"--config={json.dumps(inner)}",
        f"Server=db;User Id=me;Password={planted['a connection string']};",
        f"https://host/x?X-Amz-Signature={planted['a signed URL']}&a=b",
        f"curl -ume:{planted['curl -u']} host && redis-cli -a {planted['redis-cli -a']}",
    ]
    write_suite(folder, PROGRAM)
    suite = json.loads((folder / "suite.yaml").read_text())
    suite["params"]["argv"] += arguments
    suite["params"]["env"] = {
        "DATABASE_URL": url.format(planted["a password in a variable's URL"]),
        "API_TOKEN": planted["a variable named for a secret"],
    }
    (folder / "suite.yaml").write_text(json.dumps(suite))
    env = {"SERVICE_URL": url.format(planted["the system's variable"])}
    variable = {"name": "DB_PASSWORD", "value": planted["a pod's template"]}
    template = {"spec": {"containers": [{"name": "ranks", "env": [variable]}]}}
    pods = {"launcher": "kubernetes", "image": "python", "kind": "job", "patch": template}
    systems = {"here": {"launcher": "local", "env": env}, "pods": pods}
    (folder / "systems.yaml").write_text(json.dumps(systems))
    return planted, {}


def _found(folder: Path, planted: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Assay's files that contain a secret; the log is what the program itself printed, unchanged."""
    for path in sorted(folder.rglob("*")):
        if path.match("logs/rank-*.log"):
            continue
        if (path.is_file() and path.parent != folder) or path.name not in WRITTEN_BY_THE_USER:
            data = path.read_bytes() if path.is_file() else b""
            for where, secret in planted.items():
                if secret.encode() in data:
                    yield path.relative_to(folder), where

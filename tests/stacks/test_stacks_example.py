"""examples/stacks: the commands of its README, one after the other."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from assay.stacks.explore_spec import load
from conftest import ROOT, require

EXAMPLE = ROOT / "examples" / "stacks"
COMMANDS = re.findall(r"^```\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def test_its_specification_is_valid_and_its_readme_has_every_step() -> None:
    assert load(EXAMPLE / "explore.yaml").name == "distinct-values"
    prediction = load(EXAMPLE / "predict.yaml")
    assert len(prediction.content.vary.packages["torch"]) == prediction.content.batch, (
        "all in the same blocks"
    )
    steps = [line.split()[2] for text in COMMANDS for line in text.splitlines() if "assay stack " in line]
    assert steps == ["explore", "advise", "diff", "indicators", "export"]


def _index_answers() -> bool:
    address = os.environ.get("UV_DEFAULT_INDEX", "https://pypi.org/simple/").rstrip("/") + "/numpy/"
    try:
        with urllib.request.urlopen(address, timeout=10) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.mark.long
def test_a_newcomer_gets_from_a_question_to_a_confirmed_stack(tmp_path: Path) -> None:
    require("pypi", _index_answers(), "no package index answers")
    place = tmp_path / "examples" / "stacks"
    shutil.copytree(EXAMPLE, place)
    tools = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "VIRTUAL_ENV": ""}
    env["UV_PYTHON"] = sys.executable
    said = ""
    for text in COMMANDS:
        script = text.replace("cd examples/stacks\n", "")
        done = subprocess.run(
            ["sh", "-c", script], cwd=place, env=env, capture_output=True, text=True, check=False
        )
        said += done.stdout + done.stderr
        # 3: others were busy on this machine, so that there is no verdict
        assert done.returncode in (0, 3), f"{script}\n{said}"
    pins = (place / "locked" / "requirements.txt").read_text()
    version = re.search(r"^numpy==(\S+)", pins, re.MULTILINE)
    assert version is not None
    assert f"numpy=={version[1]} --hash=sha256:" in (place / "locked" / "Containerfile").read_text()
    assert f"numpy 2.2.6 → {version[1]}" in said
    assert json.loads((place / "observations.json").read_text())["signatures"]

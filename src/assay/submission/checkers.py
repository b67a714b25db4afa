"""mlperf-logging's own checks of a submission, run on a copy of it, and how to fix their findings."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from assay import shell
from assay.errors import HostError

TIMEOUT_S: Final = 3600.0
_MODULE: Final = "mlperf_logging"
_SAID: Final = re.compile(r"(ERROR|WARNING) - +(.*)")

_SAID_BY_US: Final = re.compile(
    r"description file checker failed|: \['Missing field"
)  # each field, with its expected value
_REMEDIES: Final = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (
            r"found (?P<n>\d+), expected (?P<m>\d+)",
            "submit exactly {m} runs: `assay submit` includes all it is given",
        ),
        (
            r"Seed checker failed|logs no seed",
            "log each run's `seed` with mllog, a different one for each run",
        ),
        (
            r"RCP Test Failed.*Missing",
            "no reference has this batch size: ask the working group for its convergence",
        ),
        (
            r"RCP Test Failed",
            "too few runs, or fewer samples than the reference needs: check the hyperparameters",
        ),
        (r"1 file does not comply", "one such run is accepted, as the one that counts as slowest"),
        (r"do(es)? not comply", "`assay score RUNS --rules` names the line of each log that breaks a rule"),
        (r"Required .* occurrence", "have the program print the key with mllog, as often as required"),
        (r"not one of|Unknown files|non-conform|do not conform|Skipping benchmark", "rename or remove it"),
    )
)


class CheckersMissingError(HostError):
    """mlperf-logging is not installed where Assay runs."""


@dataclass(frozen=True)
class Finding:
    """A checker's finding, once, however often it was printed.

    error    the package is rejected for it; False: a warning
    remedy   how to fix it; "" if only the text is available
    """

    error: bool
    text: str
    remedy: str


def check(folder: Path, round_: str) -> list[Finding]:
    """The findings of mlperf-logging's package checker for a submitter's folder, with its compliance checks.

    It works on a copy: it writes next to what it reads, and takes a null field for an answer. The
    scaling factors that it computes are kept in the folder. Raises CheckersMissingError, or HostError if
    it ends without a verdict.
    """
    if find_spec(_MODULE) is None:
        raise CheckersMissingError(
            "mlperf-logging is not installed, so its checks were not made: pip install mlperf-logging"
        )
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / folder.name
        shutil.copytree(folder, copy)
        for path in copy.glob("systems/*.json"):
            known = {name: value for name, value in json.loads(path.read_text()).items() if value is not None}
            path.write_text(json.dumps(known))
        for computed in copy.glob("results/*/*/scaling.json"):
            computed.unlink()  # it is rewritten, and an existing one causes a warning
        done = shell.run(
            [sys.executable, "-m", f"{_MODULE}.package_checker", str(copy), "training", f"{round_[1:]}.0"],
            cwd=Path(directory),
            timeout_s=TIMEOUT_S,
        )
        output = f"{done.stdout}\n{done.stderr}"
        if "PACKAGE CHECKER FOUND" not in output:
            raise HostError(f"mlperf-logging's package checker gave up: {output.strip().splitlines()[-1:]}")
        for scaling in copy.glob("results/*/*/scaling.json"):
            shutil.copyfile(scaling, folder / scaling.relative_to(copy))
        return list(dict.fromkeys(_findings(output.replace(f"{copy}/", ""))))


def _findings(output: str) -> Iterator[Finding]:
    for kind, text in _SAID.findall(output):
        if _SAID_BY_US.search(text):
            continue
        remedy = next(
            (_filled(match, template) for pattern, template in _REMEDIES if (match := pattern.search(text))),
            "",
        )
        yield Finding(kind == "ERROR", text, remedy)


def _filled(match: re.Match[str], template: str) -> str:
    return template.format(**match.groupdict())

"""What `assay stack advise` is asked with: an index of packages, and a machine of the class of made runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.records import Provenance
from assay.stacks.stack import hardware_of
from observed_stacks import MACHINE
from package_index import PackageIndex, Release, serving


@contextmanager
def advised_from(
    releases: Sequence[Release], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageIndex]:
    """The index of these, for uv with its cache in a folder, on the machine that the made runs are from."""
    machine = hardware_of(Provenance((MACHINE,)))
    assert machine is not None
    monkeypatch.setattr("assay.stacks.advise.hardware_here", lambda: machine)
    monkeypatch.setattr("assay.stacks.advise.platform.python_version", lambda: "3.11.7")
    with serving(releases) as served:
        for name, value in served.environment(folder / "uv").items():
            monkeypatch.setenv(name, value)
        yield served

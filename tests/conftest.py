"""What tests need of the world around them, and what happens where it is missing."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import s3_server
from assay import redact
from assay.analyse.points import encounters
from assay_payloads.keeping import cgroups
from assay_payloads.keeping.file_tree import FileTree
from payload_processes import Forks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SUPPORT = ROOT / "tests" / "support"  # what several tests share: contracts, stand-ins, made data
# Their names are unique: one imports from another what both read, wherever it lies.
sys.path += sorted({str(path.parent) for path in (ROOT / "tests").rglob("test_*.py")})
# Examples of a property: `make test-all` tries many. Not by time: a busy machine is no failure.
settings.register_profile("few", max_examples=12, deadline=None)
settings.register_profile("many", max_examples=300, deadline=None)
settings.load_profile(os.environ.get("ASSAY_TEST_EXAMPLES", "few"))
CHROMIUM_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# parameter of a contract of `assay.testing` → how many of its values run always, the rest by `make test-all`
LONG_FROM = {"log_to_import": 2, "moment": 3, "megabytes": 1}
REQUIRED = frozenset(filter(None, os.environ.get("ASSAY_REQUIRE", "").split(",")))
LEFT_OUT = frozenset(filter(None, os.environ.get("ASSAY_LEAVE_OUT", "").split(",")))  # tools/run_tests.py


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints doesn't depend on the terminal in which the tests were started."""
    monkeypatch.delenv("COLUMNS", raising=False)


def require(what: str, present: bool, reason: str) -> None:
    """Go on where `present`; else skip with the reason, or fail where ASSAY_REQUIRE names `what`."""
    if what in LEFT_OUT:
        pytest.skip(f"{what}: left out for its time; `ASSAY_REQUIRE={what} make test` has it")
    if present:
        return
    if what in REQUIRED:
        pytest.fail(f"{what} is required here: {reason}")
    pytest.skip(f"{what}: {reason}")


def long_but(first: int, values: Sequence[object]) -> list[object]:
    """Parameters of a test: so many run always, those after them by `make test-all`."""
    return [*values[:first], *(pytest.param(value, marks=pytest.mark.long) for value in values[first:])]


def long_rows_but(first: int, rows: Sequence[tuple[object, ...]]) -> list[object]:
    """As `long_but`, of tests with several parameters."""
    return [*rows[:first], *(pytest.param(*row, marks=pytest.mark.long) for row in rows[first:])]


def tries(many: int) -> int:
    """How often a test simulates: a third of it, and all by `make test-all`. Its bound is of this number."""
    return many if os.environ.get("ASSAY_TEST_EXAMPLES") == "many" else many // 3


@pytest.hookimpl(tryfirst=True)  # before any fixture starts a program
def pytest_runtest_setup() -> None:
    """Heed Ctrl-C: `nohup`, a background job and Assay's own end ignore it, and programs inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Spare the garbage collector what lives to the end: thousands of tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """As `pytest_collection`; and it looks less often, which took a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let the shutdown free what is frozen: torch's libraries call anything else a leak."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before -m leaves out what is long
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the longest tests of contracts to `make test-all`; files with slow tests come first.

    Of a `brief` class, each of whose tests waits for a platform, only what is essential runs always.
    """
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        inherited = item.function.__module__ in ("assay.testing.launchers", "training_contract")
        essential = item.get_closest_marker("essential") or getattr(item.function, "essential", False)
        indices = item.callspec.indices if hasattr(item, "callspec") else {}
        late = any(indices.get(name, 0) >= first for name, first in LONG_FROM.items())
        if late or (inherited and not essential and getattr(item.cls, "brief", False)):
            item.add_marker(pytest.mark.long)
        if "megabytes" in indices:
            item.add_marker(pytest.mark.slow)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were skipped: a line for each reason, the most frequent first."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{len(skipped)} skipped, by reason")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}")


@pytest.fixture(autouse=True)
def knowing_no_secret() -> Iterator[None]:
    """What a test names as secret is hidden in no other test's output."""
    yield
    redact.forget()


@pytest.fixture
def no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others took from the trials of a test is left out: its figures don't depend on load."""
    monkeypatch.setattr(encounters, "lost_to_others", lambda _results, _margin: 0.0)


@pytest.fixture(scope="session")
def mlperf_logs() -> Path:
    """The folder of real MLPerf training results."""
    path = Path(os.environ.get("ASSAY_MLPERF_LOGS", ROOT.parent / "shared" / "mlperf-logs"))
    require(
        "mlperf-logs",
        (path / "scores.txt").is_file(),
        f"no real result files in {path}; set ASSAY_MLPERF_LOGS",
    )
    return path


@pytest.fixture(scope="session")
def mlperf_rounds() -> Path:
    """The folder of whole MLPerf rounds, as archives, with their scores in expected.csv."""
    path = Path(os.environ.get("ASSAY_MLPERF_ROUNDS", ROOT.parent / "shared" / "mlperf-rounds"))
    require(
        "mlperf-rounds", (path / "expected.csv").is_file(), f"no rounds in {path}; set ASSAY_MLPERF_ROUNDS"
    )
    return path


@pytest.fixture(scope="session")
def foreign_logs() -> Path:
    """The folder of other people's logs, each as its program printed it or as launchers changed it."""
    path = Path(os.environ.get("ASSAY_FOREIGN_LOGS", ROOT.parent / "shared" / "foreign-logs"))
    require("foreign-logs", path.is_dir(), f"no logs in {path}; set ASSAY_FOREIGN_LOGS")
    return path


@pytest.fixture(scope="session")
def published() -> dict[str, Any]:
    """Figures as the papers print them."""
    path = Path(os.environ.get("ASSAY_PUBLISHED", ROOT.parent / "shared" / "facts" / "published.json"))
    require("published", path.is_file(), f"no published figures in {path}; set ASSAY_PUBLISHED")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium: $ASSAY_CHROMIUM, else the first of its usual names on the path."""
    found = os.environ.get("ASSAY_CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    require("chromium", found is not None, "no Chromium here; install it or set ASSAY_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=list(CHROMIUM_ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace of the real cluster."""
    import kubernetes_cluster

    with kubernetes_cluster.namespace() as name:
        yield name


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.S3Server]:
    """A real S3 server; its buckets are the subdirectories of its `root`."""
    require("versitygw", s3_server.program() is not None, f"no S3 server here; build it: {s3_server.BUILD}")
    require("s3fs", find_spec("s3fs") is not None, "the extra `s3` is missing")
    with s3_server.server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def torch_here() -> None:
    """Training programs and their parts can be imported."""
    pytest.importorskip("torch")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Starts programs from a process that has imported torch; one for all tests of this worker."""
    require("torch", find_spec("torchvision") is not None, "the payloads import torch and torchvision")
    with Forks() as server:
        yield server


@pytest.fixture
def a_tenth_of_a_core() -> Iterator[Path]:
    """A cgroup, version 1, below this process's own, that allows a tenth of a core's time.

    Less than a busy machine leaves: a process that gets no more than its quota is never stopped.
    """
    own = [
        Path(path)
        for path in cgroups.directories(FileTree(), "cpu")
        if os.access(f"{path}/cpu.cfs_quota_us", os.W_OK)
    ]
    require("cgroup-v1", bool(own), "no CPU controller of version 1 that this user may write to")
    group = own[0] / f"assay-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text("50000")
    (group / "cpu.cfs_quota_us").write_text("5000")
    yield group
    group.rmdir()

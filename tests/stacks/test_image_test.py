"""The program that a built image runs: which modules it imports, and that its last line is the truth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.launch.kubernetes.objects.order import Manifest
from assay.stacks.build import render_build
from assay.stacks.engines import SmokeTest, smoke_test_argv, smoke_test_outcome


def install(folder: Path, name: str, files: dict[str, str], *, requires: tuple[str, ...] = ()) -> None:
    """A distribution as pip leaves it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in (*files, f"{info.name}/METADATA")))
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")


def in_image(site: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run words with a Python whose only packages are those of `site`, as `python3`."""
    site.mkdir(exist_ok=True)
    programs = site.parent / "programs"
    programs.mkdir(exist_ok=True)
    python = programs / "python3"
    start = f"import site, sys; site.addsitedir('{site}'); exec(sys.argv.pop(1))"  # -I ignores PYTHONPATH
    interpreter = Path(sys.base_prefix) / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {interpreter} -S -I -c "{start}" "$@"\n')
    python.chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(site)}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


def result_of(site: Path, *modules: str, limit_s: float = 30.0) -> SmokeTest:
    """What the test says of the packages, apart from the user that runs it."""
    done = in_image(site, smoke_test_argv(modules, limit_s))
    found = smoke_test_outcome(done.returncode, f"{done.stderr}\n{done.stdout}")
    failed = tuple(one for one in found.failed if one[0] != "user")
    return SmokeTest(found.modules, failed, found.started)


def test_modules_are_found_by_the_names_that_a_distribution_has_for_them(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "PyPDF2", {"PyPDF2/__init__.py": ""})
    install(site, "scikit-learn", {"sklearn/__init__.py": "", "docs/conf.txt": ""})
    install(site, "types-only", {"only-stubs/__init__.pyi": ""})
    assert result_of(site) == SmokeTest(("PyPDF2", "sklearn"), ())


def test_of_packages_that_others_require_no_module_is_imported(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(
        site,
        "ipython",
        {"IPython/__init__.py": ""},
        requires=('matplotlib.inline>=0.1; python_version > "3"',),
    )
    install(site, "matplotlib-inline", {"matplotlib_inline/__init__.py": "import matplotlib"})
    assert result_of(site) == SmokeTest(("IPython",), ())


def test_a_package_of_many_modules_works_if_one_of_them_does(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "manyfold", {"many/__init__.py": "", "atests/__init__.py": "import pytest"})
    install(site, "broken", {"broken.py": "1/0", "other.py": ""})
    found = result_of(site)
    assert found == SmokeTest(("broken", "many"), (("import broken", "ZeroDivisionError: division by zero"),))


def test_a_module_that_ends_python_or_hangs_fails_by_its_name(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "ends", {"ends.py": "import os; os._exit(0)"})
    install(site, "dies", {"dies.py": "import os; os.kill(os.getpid(), 11)"})
    install(site, "hangs", {"hangs.py": "while True: pass"})
    found = result_of(site, "dies", "ends", "json", "hangs", limit_s=3.0)
    assert dict(found.failed) == {
        "import dies": "it ended the process with signal 11",
        "import ends": "it ended the process with exit code 0",
        "import hangs": "not finished within 3 s",
    }


def test_what_comes_after_a_module_that_hangs_was_not_tested_and_fails(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "aaa", {"works.py": "", "xhangs.py": "while True: pass"})
    install(site, "broken", {"broken.py": "1/0"})
    found = result_of(site, limit_s=3.0)
    assert dict(found.failed) == {
        "import xhangs": "not finished within 3 s",
        "import broken": "not tried: one before it did not finish",
    }


@pytest.fixture
def rendered(tmp_path: Path) -> dict[str, list[str]]:
    """The commands that judge an image on a cluster."""
    (tmp_path / "Containerfile").write_text("FROM a\n")
    choices = {"name": "s", "modules": ["json"]}
    (_, config) = render_build(tmp_path / "Containerfile", "openshift", **choices)
    (_, job) = render_build(tmp_path / "Containerfile", "kubernetes", push="reg.lab/s", **choices)
    return {"config": config["spec"]["postCommit"]["command"], "job": _command(job)}


def _command(job: Manifest) -> list[str]:
    """The Job's command, with a buildah that runs what it is given."""
    container = job["spec"]["template"]["spec"]["containers"][0]
    words: list[str] = list(container["command"])
    variables = "".join(
        f"{one['name']}='{one['value']}'\n" for one in container["env"] if "SMOKE" in one["name"]
    )
    fake = (
        'buildah() { case $1 in run) while [ "$1" != -- ]; do shift; done; shift; "$@" ;; esac; }\nIMAGE=x\n'
    )
    words[2] = variables + fake + words[2]
    return words


@pytest.mark.parametrize("kind", ["config", "job"])
@pytest.mark.parametrize("startup", ["", "import os; os._exit(0)", "import os; os._exit(3)"])
def test_on_a_cluster_the_last_line_decides_and_not_the_exit_code(
    tmp_path: Path, rendered: dict[str, list[str]], kind: str, startup: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "first.pth").write_text(startup)
    words = [*rendered[kind]]
    at = next(n for n, word in enumerate(words) if "image-test" in word and "def main" in word)
    words[at] = words[at].replace("for check in (user, home)", "for check in (home,)")  # tests run as root
    done = in_image(site, words)
    assert (done.returncode == 0) == (startup == ""), done.stderr

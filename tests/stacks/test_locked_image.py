"""A lock as a container file: its hashes, its Python, and what can't be installed from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import cli
from assay.errors import InputError
from assay.stacks.containerfile import image_of_lock

A, B, C = "a" * 64, "b" * 64, "c" * 64
LOCK = f"""\
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.12"
[[packages]]
name = "numpy"
version = "2.1.3"
wheels = [
  {{ url = "https://x.lab/numpy-2.1.3-cp312-cp312-linux_x86_64.whl", hashes = {{ sha256 = "{A}" }} }},
  {{ url = "https://x.lab/numpy-2.1.3-cp311-cp311-linux_x86_64.whl", hashes = {{ sha256 = "{B}" }} }},
  {{ url = "https://x.lab/numpy-2.1.3-cp312-cp312-win_amd64.whl", hashes = {{ sha256 = "{C}" }} }},
]
[[packages]]
name = "pace"
version = "1.0+lab.1"
index = "https://user:pass-word@pypi.lab/simple?token=t0ken"
wheels = [{{ name = "pace-1.0+lab.1-cp39-abi3-linux_x86_64.whl", hashes = {{ sha256 = "{B}" }} }}]
"""


def printed(folder: Path, text: str, *words: str) -> str:
    lock = folder / "pylock.toml"
    lock.write_text(text)
    done = CliRunner().invoke(cli.assay, ["stack", "containerfile", "--from", str(lock), *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_lock_is_installed_with_the_hashes_that_its_python_can_use(tmp_path: Path) -> None:
    text = printed(tmp_path, LOCK)
    assert f"'numpy==2.1.3 --hash=sha256:{A}'" in text
    assert f"'pace==1.0+lab.1 --hash=sha256:{B}'" in text
    assert "--require-hashes" in text
    assert C not in text
    assert "ubuntu24.04 with Python 3.12" in text
    assert text == printed(tmp_path, LOCK)


def test_an_index_loses_its_password_and_its_token(tmp_path: Path) -> None:
    text = printed(tmp_path, LOCK)
    assert 'ARG PIP_EXTRA_INDEX_URL="https://pypi.lab/simple"' in text
    assert "pass-word" not in text
    assert "t0ken" not in text


def test_variables_are_as_they_were_measured_and_no_secret_is_among_them(tmp_path: Path) -> None:
    text = printed(tmp_path, LOCK, "--env", "OMP_NUM_THREADS=2", "--env", 'X=a"b$c')
    assert 'ENV OMP_NUM_THREADS="2"' in text
    assert r'X="a\"b\$c"' in text
    with pytest.raises(InputError, match="HF_TOKEN looks like a secret"):
        printed(tmp_path, LOCK, "--env", "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz")
    with pytest.raises(InputError, match="X looks like a secret"):
        printed(tmp_path, LOCK, "--env", "X=ghp_0123456789abcdefghijABCDEFGHIJ012345")
    with pytest.raises(InputError, match="HOME is what the image sets itself"):
        printed(tmp_path, LOCK, "--env", "HOME=/root")


def test_a_path_with_a_line_end_adds_no_instruction(tmp_path: Path) -> None:
    place = tmp_path / "d\nRUN touch pwned\n#"
    place.mkdir()
    text = printed(place, LOCK)
    assert "?RUN touch pwned?" in text
    assert "\nRUN touch pwned" not in text


def test_a_base_with_another_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--base: debian12 has Python 3\.11, .* is for 3\.12: choose from"):
        printed(tmp_path, LOCK, "--base", "debian12")
    with pytest.raises(InputError, match=r"it is for Python 3\.9, which no base has: debian12 has 3\.11"):
        image_of_lock(LOCK.replace("3.12", "3.9").replace("cp312", "cp39"), "pylock.toml")


def test_the_accelerator_is_that_of_the_libraries_in_the_lock() -> None:
    cuda = LOCK.replace('"pace"', '"nvidia-cuda-runtime-cu12"').replace("pace-1.0+lab.1", "x-12.8.90")
    cuda = cuda.replace('"1.0+lab.1"', '"12.8.90"')
    stack = image_of_lock(cuda, "pylock.toml")
    assert stack.accelerator == "cuda12.8"
    assert stack.runtime.env["NVIDIA_REQUIRE_CUDA"] == "cuda>=12.0"
    with pytest.raises(InputError, match=r"has the libraries of rocm7\.2, which cuda12\.8 does not use"):
        image_of_lock(cuda, "pylock.toml", base="ubuntu24.04-rocm7.2")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "numpy"', 'name = "numpy\'; rm -rf /"', r"packages\[1\]: it has no valid name"),
        ('"2.1.3"', '"2.1\' 3"', r"packages\[1\]: numpy: Invalid version"),
        (A, "zz", r"packages\[1\]: numpy 2\.1\.3 has no wheel for Python 3\.12 on Linux"),
        ('name = "pace"', 'name = "pace"\ndirectory = { path = "." }', r"packages\[2\]: pace is not from an"),
        ('">=3.12"', '"new"', "requires-python: found 'new'"),
        ('lock-version = "1.0"', "", "lock-version: found None; expected '1.0'"),
        ('lock-version = "1.0"', 'lock-version = "2.0"', "lock-version: found '2.0'; expected '1.0'"),
        ("https://user", r"https://a\nRUN x", r"packages\[2\]: its index is not an address"),
        ("[[packages]]", "[[other]]", "it has no `packages`"),
    ],
)
def test_a_lock_that_pip_could_not_install_is_refused_at_its_package(old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        image_of_lock(LOCK.replace(old, new), "pylock.toml")


def test_a_lock_without_a_python_is_for_that_of_the_base_or_the_first_with_all_its_wheels(
    tmp_path: Path,
) -> None:
    by_pip = LOCK.replace('requires-python = ">=3.12"\n', "")
    assert f"'numpy==2.1.3 --hash=sha256:{A}'" in printed(tmp_path, by_pip)
    text = printed(tmp_path, by_pip, "--base", "debian12")
    assert f"'numpy==2.1.3 --hash=sha256:{B}'" in text
    text = printed(tmp_path, by_pip.replace("cp312-cp312-linux", "cp310-cp310-linux"))
    assert "debian12 with Python 3.11" in text
    with pytest.raises(InputError, match="no requires-python, and for none of Python"):
        image_of_lock(by_pip.replace("-cp31", "-cp30"), "pylock.toml")
    with pytest.raises(InputError, match=r"numpy 2\.1\.3 has no wheel for Python 3\.13"):
        image_of_lock(by_pip, "pylock.toml", base="debian13")


def test_a_lock_of_a_newer_minor_version_is_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert image_of_lock(LOCK.replace('"1.0"\ncreated', '"1.1"\ncreated'), "pylock.toml").lock
    assert "pylock.toml: lock-version 1.1 is newer than 1.0" in caplog.text


@pytest.mark.parametrize("name", ["MY_KEY", "LICENSE_KEY", "SIGNING_KEYS", "LAB_TOKEN"])
def test_a_bare_key_is_refused_by_its_look_and_its_name(name: str) -> None:
    key = "0123456789abcdef" * 3
    with pytest.raises(InputError, match=f"{name} looks like a secret, .* set it when a container starts"):
        image_of_lock(LOCK, "pylock.toml", settings={name: key})
    assert image_of_lock(LOCK, "pylock.toml", settings={"MODEL_REVISION": key, "KEY_BITS": "4096"}).settings


def test_a_workload_must_find_what_it_imports() -> None:
    with pytest.raises(InputError, match="matmul imports torch, which it does not have"):
        image_of_lock(LOCK, "pylock.toml", workload="matmul")


def test_of_several_frameworks_a_workload_gets_those_of_the_lock() -> None:
    assert image_of_lock(LOCK, "pylock.toml", workload="indicators").modules == ("numpy",)
    jax = LOCK.replace('"pace"', '"jax"').replace("pace-", "jax-")
    assert image_of_lock(jax, "pylock.toml", workload="indicators").modules == ("jax", "numpy")

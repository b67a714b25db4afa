"""The interpreter, its packages, and the variables that affect training; no secret leaves the node."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree


def software(facts: dict[str, str], folders: list[str]) -> Iterator[tuple[str, Any]]:
    """An interpreter, as interpreter.py answers for it, and the packages that it finds in these folders."""
    yield "python.version", facts["version"]
    yield "python.implementation", facts["implementation"]
    yield "python.executable", facts["executable"]
    yield "python.virtual_environment", bool(facts["virtual_environment"])
    tree = FileTree()
    places = metadata(tree, folders)
    packages = {name: version for name, (version, _) in places.items()}
    for name, version in packages.items():
        yield f"package.{name}", version
    for name, build in builds(places).items():
        yield f"build.{name}", build
    for name, build in conda_builds(tree, facts["executable"]).items():
        yield f"conda.{name}", build
    listed = "\n".join(f"{name}=={version}" for name, version in packages.items())
    yield "python.packages_digest", hashlib.sha256(listed.encode()).hexdigest()[:16]
    for name in ("torch", "torchvision"):
        texts = (tree.text(f"{folder}/{name}/version.py") for folder in folders)
        stated = version_file(next(filter(None, texts), ""))
        yield f"python.{name}", stated.get("__version__") or packages.get(name)
        if name == "torch":
            yield "python.torch_cuda", stated.get("cuda")
            yield "python.torch_hip", stated.get("hip")
    yield "python.numpy", packages.get("numpy")
    for name, version in packages.items():
        library = re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d+", name)
        if library is not None:
            yield f"python.{library[1]}", version


def metadata(tree: FileTree, folders: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Packages by name: version, from the name of the metadata directory, and that directory's path."""
    packages: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for entry in tree.names(folder, r".*\.(dist-info|egg-info)$"):
            match = re.fullmatch(r"([^-]+)-([^-]+)(-py[\d.]+)?\.\w+-info", entry)
            if match is not None:  # the first one on the search path is the one that is imported
                name = re.sub(r"[-_.]+", "-", match[1]).lower()
                packages.setdefault(name, (match[2], f"{folder}/{entry}"))
    return dict(sorted(packages.items()))


def builds(places: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Packages that are built for a platform, by name, with the build that is installed.

    places  as `metadata` returns them

    It is the platform that the wheel was built for, `manylinux_2_28_x86_64`: one that says `linux_x86_64` was
    built on a machine, with the libraries found there. A build number comes before it.
    """
    build_by_package = {}
    for name, (_, place) in places.items():
        about = head(f"{place}/WHEEL")
        platforms = {tag.rsplit("-", 1)[1] for tag in re.findall(r"^Tag: (\S+-\S+)", about, re.MULTILINE)}
        number = re.search(r"^Build: (\S+)", about, re.MULTILINE)
        if platforms - {"any"}:
            build_by_package[name] = " ".join([*([number[1]] if number else []), *sorted(platforms)])
    return build_by_package


def head(path: str) -> str:
    """The beginning of a small file, "" if there is none; for hundreds of them, a third of open's time."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 2048).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def conda_builds(tree: FileTree, python: str) -> dict[str, str]:
    """Packages of the interpreter's conda environment, libraries of C included, with version and build."""
    environment = python.rsplit("/", 2)[0]
    entries = tree.names(f"{environment}/conda-meta", r".+-[^-]+-[^-]+\.json$")
    parts = (entry[: -len(".json")].rsplit("-", 2) for entry in entries)
    return {name: f"{version} {build}" for name, version, build in parts}


def version_file(text: str) -> dict[str, str]:
    """Strings assigned in a package's version.py: `__version__ = '2.8.0+cu128'`, `cuda: … = '12.8'`."""
    return dict(re.findall(r"""^(\w+)\s*(?::[^=\n]*)?=\s*['"]([^'"]*)['"]""", text, re.MULTILINE))


STEERS_TRAINING = re.compile(
    r"(NCCL|RCCL|GLOO|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|DNNL|ONEDNN|TORCH|PYTORCH|CUDA|CUDNN|CUBLAS|NVIDIA)_.*"
    r"|(HIP|ROCR|HSA|UCX|FI|OMPI_MCA|XLA|MALLOC|HOROVOD)_.*"
    r"|TF_(XLA|ENABLE|DISABLE|GPU|NUM|USE|FORCE|CUDNN|DETERMINISTIC)\w*"
    r"|SLURM_(JOB|CPU|GPU|MEM|NTASKS|NNODES|TASKS|STEP)\w*"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONOPTIMIZE|PYTHONMALLOC|PYTHONHASHSEED"
)
SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|PASS($|_)|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"://[^/\s@]*@"  # userinfo in a URL
    r"|\b(bearer|basic)\s+\S"
    r"|(token|secret|passw(or)?d|api_?key|signature|credential)s?\s*[=:]"
    r"|\b(gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|eyJ)[\w-]{12,}"
    r"|-----BEGIN",
    re.IGNORECASE,
)
REDACTED = "(redacted)"


def redacted(name: str, value: str) -> str:
    """The value, or `(redacted)` if the name or the value looks like a secret."""
    return REDACTED if SECRET_NAME.search(name) or SECRET_VALUE.search(value) else value


def environment(variables: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    """Variables that affect training and communication, without secrets."""
    for name, value in sorted(variables):
        if STEERS_TRAINING.fullmatch(name):
            yield f"env.{name}", redacted(name, value)

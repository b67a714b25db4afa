"""The training scripts of torchvision's source, which its wheel lacks: downloaded once from a pinned archive.

They are not copied into this repository. The archive is Debian's source of the release, whose checksum was
signed with the distribution; it is identical to the release's own, byte for byte.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "0.21.0"
URL = f"https://deb.debian.org/debian/pool/main/p/pytorch-vision/pytorch-vision_{VERSION}.orig.tar.gz"
SHA256 = "0a4a967bbb7f9810f792cd0289a07fb98c8fb5d1303fae8b63e3a6b05d720058"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "assay-benchmarks"


def references() -> Path | None:
    """The directory `references`, cached or downloaded; None, with the reason printed, if that fails."""
    target = CACHE / f"vision-{VERSION}" / "references"
    if not target.is_dir():
        try:
            with urllib.request.urlopen(URL, timeout=60) as answer:
                archive = answer.read()
        except (urllib.error.URLError, TimeoutError) as error:
            print(f"torchvision's training scripts can't be fetched from {URL}: {error}")
            return None
        if hashlib.sha256(archive).hexdigest() != SHA256:
            print(f"{URL} has changed: its SHA-256 is not {SHA256}; none of it is run")
            return None
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            chosen = [member for member in opened if member.name.startswith(f"vision-{VERSION}/references/")]
            opened.extractall(CACHE, members=chosen, filter="data")
    return target

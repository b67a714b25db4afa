"""Copy the JavaScript that draws a page's charts into `src/assay/view/vega/`.

    python tools/vendor_vega.py

npm fetches the published files and checks their digests; it runs no scripts of the packages. `versions.json`
names what was copied with its SHA-256, `LICENSES.txt` has the license of each package in them.

To update: change VERSIONS, run this, then `make test`. Vega-Lite has the version that Altair writes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

VERSIONS = {"vega": "6.2.0", "vega-lite": "6.4.1", "vega-embed": "7.0.2"}  # in the order in which they load
TARGET = Path(__file__).resolve().parent.parent / "src" / "assay" / "view" / "vega"


def main() -> None:
    """Replace the folder's files with those of VERSIONS."""
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        packages = [f"{name}@{version}" for name, version in VERSIONS.items()]
        flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"]
        subprocess.run(["npm", "install", *flags, "--prefix", scratch, *packages], check=True)
        modules = Path(scratch) / "node_modules"
        copied = {name: _copy(modules, name) for name in VERSIONS}
        (TARGET / "LICENSES.txt").write_text("\n\n".join(_licences(modules)) + "\n")
    (TARGET / "versions.json").write_text(json.dumps(copied, indent=2) + "\n")


def _copy(modules: Path, name: str) -> dict[str, str]:
    """The version and digest of a package's browser build, after copying it."""
    file = f"{name}.min.js"
    content = (modules / name / "build" / file).read_bytes()
    (TARGET / file).write_bytes(content)
    return {"version": VERSIONS[name], "file": file, "sha256": hashlib.sha256(content).hexdigest()}


def _licences(modules: Path) -> list[str]:
    """For each license text, the packages under it and the text."""
    packages: dict[str, list[str]] = {}
    for described in sorted([*modules.glob("*/package.json"), *modules.glob("@*/*/package.json")]):
        about = json.loads(described.read_text())
        files = [path for path in described.parent.iterdir() if path.name.lower().startswith("licen")]
        text = next((path.read_text().strip() for path in sorted(files)), None)
        if text is None:
            raise SystemExit(f"{described.parent} has no license file")
        packages.setdefault(text, []).append(f"{about['name']} {about['version']} ({about['license']})")
    return [f"{'=' * 80}\n{', '.join(names)}\n\n{text}" for text, names in packages.items()]


if __name__ == "__main__":
    main()

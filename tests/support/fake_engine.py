"""A podman that builds nothing: it writes down how it was called, and answers what a test wants."""

from __future__ import annotations

from pathlib import Path

IMAGE_ID = "1" * 64
PASSED = 'assay-image-test {"modules": ["json"], "failed": []}'
_PROGRAM = """\
#!/bin/sh
echo "$@" >> "$0.calls"
for word in "$@"; do
    case "$word" in
        --digestfile=*) echo sha256:{digest} > "${{word#*=}}" ;;
    esac
done
case "$1" in
    build) {build}; echo "--> {layer}"; echo {image_id} ;;
    images) echo '[{{"Id": "{image_id}"}}]' ;;
    image) echo '[{{"Id": "'"$3"'", "Size": 1}}]' ;;
    run) echo '{says}' ;;
esac
"""


def fake_engine(folder: Path, *, build: str = "true", says: str = PASSED) -> Path:
    """The program `podman` in a folder.

    build  shell commands of its `build`
    says   output of a container
    """
    program = folder / "podman"
    layer, digest = IMAGE_ID[:11], "2" * 64
    text = _PROGRAM.format(image_id=IMAGE_ID, layer=layer, digest=digest, build=build, says=says)
    program.write_text(text)
    program.chmod(0o755)
    return program


def calls(program: Path, command: str) -> list[str]:
    """Arguments of the calls of a command, in order."""
    lines = Path(f"{program}.calls").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{command} ")]

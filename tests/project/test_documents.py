"""What the documents point at is there, what is generated is current, and nothing names one machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, require

IMAGES = ROOT / "docs" / "images"  # made, not written

_FENCED = re.compile(r"^(```+)[^\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
# Places of one machine. Programs may well speak of /tmp, documents have no reason to.
_MACHINE = re.compile(r"(?<![\w.~-])/(?:work|root|home)/\w")
_TEMPORARY = re.compile(r"(?<![\w.~-])/tmp/\w")
_TEXT = {".md", ".py", ".toml", ".yaml", ".yml", ".json", ".csv", ".txt", ".html", ".css", ".js", ""}


def tracked() -> list[Path]:
    """Files of the repository; without git, as in an unpacked archive, there is no list of them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]


def anchors(text: str) -> set[str]:
    """Headings as the fragments that links to them have."""
    words = (
        re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in _HEADING.findall(_FENCED.sub("", text))
    )
    return {word.replace(" ", "-") for word in words}


def test_every_file_that_contributing_names_is_there() -> None:
    named = re.findall(r"`((?:src|tests|docs|tools)/[\w./]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 10
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []


def broken_links(document: Path) -> list[str]:
    """Relative links of a document whose file, folder or heading isn't there."""
    broken = []
    for link in _LINK.findall(_FENCED.sub("", document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = document if not path else document.parent / path
        missing = not target.exists()
        if missing or (fragment and target.suffix == ".md" and fragment not in anchors(target.read_text())):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    assert [
        link for link in broken_links(document) if not (document.parent / link).is_relative_to(IMAGES)
    ] == []


def stray_numbers(text: str) -> list[str]:
    """Lines that the site shows as items of a list: they begin with a number that no list has reached."""
    last, stray = 0, []
    for line in _FENCED.sub("", text).splitlines():
        if found := re.match(r" *(\d+)\. ", line):
            if int(found[1]) not in (1, last + 1):
                stray.append(line)
            last = int(found[1])
    return stray


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_becomes_a_numbered_list(document: Path) -> None:
    assert stray_numbers(document.read_text()) == []


def test_a_sentence_that_becomes_a_numbered_list_is_found() -> None:
    assert stray_numbers("1. one\n2. two\n\n14 in 5 pairs and 8 in\n10. Others\n") == ["10. Others"]


def test_the_pictures_of_the_readme_are_there() -> None:
    require(
        "pictures", IMAGES.is_dir(), f"no {IMAGES.name}; tools/make_screenshots.py makes it from a session"
    )
    assert broken_links(ROOT / "README.md") == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[a](b.md) [here](#one-thing) [none](#two) [web](https://x) ![i](i.png)\n")
    assert broken_links(page) == ["b.md", "#two", "i.png"]


def reference(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What `python tools/reference` with these words does to the repository at `root`."""
    command = [sys.executable, root / "tools" / "reference", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_generated_pages_are_what_the_code_says() -> None:
    ran = reference(ROOT, "--check")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.long
def test_a_generated_page_that_is_stale_is_found_and_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools" / "reference", tmp_path / "tools" / "reference")
    page = tmp_path / "docs" / "reference" / "exit-codes.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Exit codes of last year\n")
    found = reference(tmp_path, "--check", "exit-codes")
    assert found.returncode == 1
    assert found.stderr == "stale: docs/reference/exit-codes.md; run: make reference\n"
    assert reference(tmp_path, "exit-codes").returncode == 0
    assert page.read_text() == (ROOT / "docs" / "reference" / "exit-codes.md").read_text()


def test_the_command_reference_has_what_a_person_sees_of_a_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from assay.cli import main; main()", "gate", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-h, --help" in ran.stdout
    document = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert " ".join(ran.stdout.split()) in " ".join(document.split())  # lines break elsewhere


def test_no_tracked_file_outside_the_tests_names_a_place_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in tracked()
        if path.suffix in _TEXT and path.parts[len(ROOT.parts)] != "tests"
        for line in path.read_text(errors="replace").splitlines()
        if _MACHINE.search(line) or (path.suffix == ".md" and _TEMPORARY.search(line))
    ]
    assert found == []


@pytest.mark.parametrize("line", ["see /work/main", 'open("/root/x")', "cd /home/me"])
def test_a_place_of_one_machine_is_found(line: str) -> None:
    assert _MACHINE.search(line)

"""Make docs/images from a finished session: `python tools/make_screenshots.py RUNS_DIR REFERENCE`.

terminal.svg shows the output of `assay compare` and the curves of `assay scale`, in color; report.png the top
of the page that `assay report` writes, down to its first chart, in Chromium ($ASSAY_CHROMIUM, otherwise its
usual names).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
ASSAY = Path(sys.executable).with_name("assay")
COLUMNS = 88
VERDICTS = (0, 1, 3)  # exit codes that are answers: equivalent or faster, slower, undecided
PAGE_WIDTH, PAGE_HEIGHT = 1280, 1000
MARGIN, MOST_HEIGHT = 24, 1500  # below the first chart, where the picture ends
MOST_PNG_BYTES = 400_000
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def printed(*arguments: str, runs_dir: Path) -> str:
    """What a command prints on a terminal, including escape sequences. Exits if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment["ASSAY_RUNS"] = str(runs_dir)
    done = subprocess.run(
        [str(ASSAY), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in VERDICTS:
        sys.exit(f"assay {' '.join(arguments)} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def terminal_svg(runs_dir: Path, reference: str) -> str:
    """The commands with their prompts and output, as a terminal window; fetches no font."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    verdicts = printed("compare", reference, runs_dir=runs_dir)
    curves = printed("scale", reference, runs_dir=runs_dir).splitlines()
    details = next(at for at, line in enumerate(curves) if Text.from_ansi(line).plain.startswith("kind"))
    head = details - 2  # without the name of the first curve and the line above it
    for command, output in (
        (f"assay compare {reference}", verdicts),
        (f"assay scale {reference} | head -{head}", "\n".join(curves[:head])),
    ):
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output), soft_wrap=True)
    svg = console.export_svg(title="assay", theme=MONOKAI, unique_id="assay")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONTS}", svg)


def report_png(runs_dir: Path, reference: str, target: Path) -> None:
    """The top of the page in Chromium, light, with its charts drawn."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("ASSAY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        sys.exit("Chromium not found: install it or set ASSAY_CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        page = Path(scratch) / "page.html"
        printed("report", reference, "-o", str(page), runs_dir=runs_dir)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_page(viewport={"width": PAGE_WIDTH, "height": PAGE_HEIGHT}, color_scheme="light")
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-charts=drawn]")
        first = shown.locator("figure").first.bounding_box()
        height = PAGE_HEIGHT if first is None else first["y"] + first["height"] + MARGIN
        shown.screenshot(
            path=target,
            full_page=True,
            clip={"x": 0, "y": 0, "width": PAGE_WIDTH, "height": min(height, MOST_HEIGHT)},
        )
        browser.close()
    if target.stat().st_size > MOST_PNG_BYTES:
        sys.exit(f"{target} has {target.stat().st_size:,} bytes, more than {MOST_PNG_BYTES:,}")


def main() -> None:
    """Write both images, and print their paths."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    runs_dir, reference = Path(sys.argv[1]).resolve(), sys.argv[2]
    IMAGES.mkdir(parents=True, exist_ok=True)
    drawn, shot = IMAGES / "terminal.svg", IMAGES / "report.png"
    drawn.write_text(terminal_svg(runs_dir, reference), encoding="utf-8")
    report_png(runs_dir, reference, shot)
    for path in (drawn, shot):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

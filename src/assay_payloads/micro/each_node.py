"""Start a program of the site once on each node, if a node has one rank or several.

    python -m assay_payloads.micro.each_node --program nvbandwidth -- --verbose

The first rank of each node starts it, for all GPUs of the node; the others have nothing to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from assay_payloads.measuring.rank import END, Rank
from assay_payloads.measuring.site_program import NOT_THERE, FailureWords, SiteProgram


def main() -> None:
    """Read the command line, run the program to its end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", required=True, help="its path, or its name on the PATH")
    parser.add_argument(
        "--in-its-directory", action="store_true", help="run it in its own directory, with the files it reads"
    )
    parser.add_argument("arguments", nargs="*", help="the program's own, after --")
    options = parser.parse_args()
    rank = Rank()
    rank.log("world_size", rank.size)
    if rank.local_rank == 0:
        run(rank, options)
    rank.log("payload", event=END)


def run(rank: Rank, options: argparse.Namespace) -> None:
    """The node's own run of the program, which must succeed."""
    several = rank.size > int(os.environ.get("LOCAL_WORLD_SIZE", rank.size))
    labels = {"node": int(os.environ["GROUP_RANK"])} if several else {}
    program = shutil.which(options.program)
    if program is None:
        rank.fail(f"{options.program} does not exist: {NOT_THERE}")
    place = str(Path(program).resolve().parent) if options.in_its_directory else None
    try:
        running = SiteProgram(rank, [program, *options.arguments], "node", labels, place)
    except OSError as error:
        rank.fail(f"{program} can't be started: {error.strerror}: {NOT_THERE}")
    while running.pass_on():
        pass
    if why := running.why_not(FailureWords()):
        rank.fail(why)


if __name__ == "__main__":
    main()

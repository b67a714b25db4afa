"""Start one of the nccl-tests programs, which must be installed on the nodes, to suit the job's ranks.

    python -m assay_payloads.exchange.nccl_tests --program all_reduce_perf --min-bytes 8 --max-bytes 134217728

Under mpirun, each rank is an MPI process with one GPU. Otherwise the first rank of each worker starts the
program for all GPUs of the worker, and the other ranks have nothing to do; several workers then need MPI's
process management (PMIx or PMI, as srun --mpi provides it), and a build with MPI.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from assay_payloads.measuring.rank import OPEN_MPI, place

MPI_OF_EACH_WORKER = ("PMIX_RANK", "PMI_RANK")


def gpus_here(environment: Mapping[str, str]) -> int:
    """How many GPUs the program uses in this process; 0: another rank's process uses this rank's."""
    _, size, local_rank = place(environment)
    local_size = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if environment.get(OPEN_MPI[1]) == str(size):  # mpirun started each rank
        return 1
    if size > local_size and not any(name in environment for name in MPI_OF_EACH_WORKER):
        sys.exit(
            f"nccl_tests.py: {size} ranks in workers of {local_size} find each other through MPI, which is "
            "missing: use kind: mpijob, or srun with PMIx; workload collectives needs no MPI"
        )
    return 0 if local_rank else local_size


def main() -> None:
    """Become the program, or end if another rank's process does the work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", required=True, help="its path, or its name on the PATH")
    parser.add_argument("--min-bytes", type=int, default=8)
    parser.add_argument("--max-bytes", type=int, default=1 << 27)
    parser.add_argument("--factor", type=int, default=2, help="factor from one size to the next")
    parser.add_argument("--dtype", default="float")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    gpus = gpus_here(os.environ)
    if not gpus:
        print("the first rank of this worker measures this rank's GPU too")
        return
    argv = [options.program, "-b", str(options.min_bytes), "-e", str(options.max_bytes)]
    argv += ["-f", str(options.factor), "-d", options.dtype, "-n", str(options.iterations)]
    argv += ["-w", str(options.warmup), "-c", str(int(options.check)), "-g", str(gpus)]
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)  # noqa: S606  (no shell, whose quoting it would have to survive)
    except OSError as error:
        sys.exit(
            f"nccl_tests.py: {options.program} can't be started: {error.strerror}; nccl-tests must be "
            "built on the nodes or in the image; set `program` to the program's path"
        )


if __name__ == "__main__":
    main()

"""Start one of nccl-tests' programs, which has to be on the nodes, as the ranks of the job allow.

    python -m assay_payloads.exchange.nccl_tests --program all_reduce_perf --min-bytes 8 --max-bytes 134217728

Below mpirun each rank is a process of MPI with one GPU. Else the first rank of each worker starts it for all
GPUs of the worker, and the others have nothing to do; several workers then need what MPI finds its processes
by (PMIx or PMI, as srun --mpi gives it), with a build that has MPI.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from assay_payloads.measuring.rank import OPEN_MPI, place

MPI_OF_EACH_WORKER = ("PMIX_RANK", "PMI_RANK")


def gpus_here(environment: Mapping[str, str]) -> int:
    """How many GPUs the program is to take in this process; 0: another rank's process takes this one's."""
    _, size, local_rank = place(environment)
    local_size = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if environment.get(OPEN_MPI[1]) == str(size):  # mpirun started each rank
        return 1
    if size > local_size and not any(name in environment for name in MPI_OF_EACH_WORKER):
        sys.exit(
            f"nccl_tests.py: {size} ranks in workers of {local_size} find each other by MPI, and there is "
            "none: use kind: mpijob, or srun with PMIx; workload collectives needs no MPI"
        )
    return 0 if local_rank else local_size


def main() -> None:
    """Become the program, or end where another rank's process does the work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", required=True, help="its path, or its name on the PATH")
    parser.add_argument("--min-bytes", type=int, default=8)
    parser.add_argument("--max-bytes", type=int, default=1 << 27)
    parser.add_argument("--factor", type=int, default=2, help="of one size over the one before")
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
            f"nccl_tests.py: {options.program} can't be started: {error.strerror}; nccl-tests has to be "
            "built on the nodes or in the image; name the program's path as `program`"
        )


if __name__ == "__main__":
    main()

"""NumPy and SciPy loaded so that a shortage is an error of this process, not the end of it.

The OpenBLAS inside each of them starts a thread per core when it is loaded. If it gets no thread, it sends
this process SIGINT; if it gets no memory, it calls `exit(1)`, which would mean that the answer is no. One
thread is enough for what Assay computes. Jobs don't inherit the setting.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

NEEDED_BYTES = 192 << 20  # address space that loading one takes: 83 MiB for NumPy, 90 MiB for scipy.special
_THREADS = "OPENBLAS_NUM_THREADS"


class OneBlasThread:
    """Finds the modules that load an OpenBLAS, and lets each start one thread. Raises MemoryError."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's usual spec; None if it loads none."""
        if name != "numpy" and not (name.startswith("scipy.") and name.count(".") == 1):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_with_one_thread(module: ModuleType) -> None:
            with _one_thread():
                run(module)

        spec.loader.exec_module = run_with_one_thread  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Load NumPy and SciPy in this way from now on."""
    sys.meta_path.insert(0, OneBlasThread)


@contextmanager
def _one_thread() -> Iterator[None]:
    try:
        mmap.mmap(-1, NEEDED_BYTES, flags=mmap.MAP_PRIVATE).close()  # reserves addresses, touches no page
    except OSError as error:
        raise MemoryError from error
    if _THREADS in os.environ:  # the user's, or this is inside another such import
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS]

"""Lists the RDMA devices of a pod or host, opens them, and locks memory as registering a buffer does.

`python -m assay_payloads.probing.rdma_check` prints `:::ASSAY-PROBE {...}`, a flat JSON table.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing import host_fabric
from assay_payloads.probing.probe import MARK, VERSION, gather

LOCKED_BYTES = 2**26  # far above the default limits of 64 KiB and 8 MiB


def locking() -> Iterator[tuple[str, Any]]:
    """Whether 64 MiB can be locked; if not, the limit."""
    memory = mmap.mmap(-1, LOCKED_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.c_char.from_buffer(memory)
    place, size = ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(LOCKED_BYTES)
    if libc.mlock(place, size) == 0:
        libc.munlock(place, size)
        yield "memory.locked_bytes", LOCKED_BYTES
        return
    why, limit = os.strerror(ctypes.get_errno()), resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    yield "memory.lock_refused", f"{LOCKED_BYTES} bytes can't be locked: {why}; the limit is {limit}"


def main() -> None:
    """Print the table."""
    facts: dict[str, Any] = {"probe.version": VERSION}
    tree = FileTree()
    for section in (lambda: host_fabric.fabric(tree, lambda *_: None), locking):
        problem = gather(section, facts)
        if problem:
            facts["smoke.error"] = problem
    sys.stdout.write(MARK + json.dumps(facts, ensure_ascii=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()

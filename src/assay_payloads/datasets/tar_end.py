"""Whether a tar file is whole: tarfile takes any header that it can't read for the end."""

from __future__ import annotations

from typing import IO

TAR_BLOCK = 512
END_BYTES = 2 * TAR_BLOCK  # of zeros
LOOKED_AT_BYTES = 1 << 20  # after the end; what pads a tape's record is less


def wrong_end(file: IO[bytes], after: int) -> str:
    """Why a tar file doesn't end where tarfile stopped; empty if it does.

    after  where the last member's data ends, in whole blocks: `TarFile.offset`

    >>> import io
    >>> wrong_end(io.BytesIO(bytes(END_BYTES)), 0), wrong_end(io.BytesIO(b""), 0)
    ('', "has no end after its last whole member: it was cut, perhaps more is missing; copy it again")
    """
    file.seek(after)
    end = file.read(END_BYTES)
    if len(end) < TAR_BLOCK:
        return "has no end after its last whole member: it was cut, perhaps more is missing; copy it again"
    if end.strip(b"\0"):
        return f"has a damaged header at byte {after:,}; what follows can't be found"
    if file.read(LOOKED_AT_BYTES).strip(b"\0"):
        return f"goes on after its end at byte {after:,}: are several tar files joined? Keep them apart"
    return ""

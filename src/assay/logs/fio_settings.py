"""The settings that decide what a job of fio does, with fio's defaults where its report states none.

A report lists only the options that its user set, as the user wrote them: `direct=0` and no `direct` are one
setting, and so are `bs=1m` and `bs=1024k`.

Source: fio's HOWTO, 3.42, "Parameter types" and the defaults of each option, on Linux.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_DEFAULTS: Final = {
    "rw": "read", "bs": "4k", "bssplit": "none", "bsrange": "none", "ioengine": "psync", "iodepth": "1",
    "numjobs": "1", "thread": "0", "direct": "0", "sync": "none", "fsync": "0", "fdatasync": "0",
    "end_fsync": "0",
    "fsync_on_close": "0", "invalidate": "1", "loops": "1", "nrfiles": "1", "rwmixread": "50",
    "rate": "0", "rate_min": "0", "rate_iops": "0", "thinktime": "0", "ramp_time": "0", "zonemode": "none",
    "verify": "0", "gtod_reduce": "0", "percentage_random": "100", "random_distribution": "random",
    "norandommap": "0", "zero_buffers": "0", "buffer_compress_percentage": "0", "dedupe_percentage": "0",
    "iodepth_batch": "1", "hipri": "0", "sqthread_poll": "0", "fixedbufs": "0", "pre_read": "0",
}  # fmt: skip
_SIZES: Final = ("bs", "bssplit", "bsrange", "size", "filesize", "io_size", "rate", "rate_min")
_FLAGS: Final = {"": "1", "true": "1", "false": "0"}  # an option without a value is set
_ALIKE: Final = {
    ("rw", "readwrite"): "rw",
    ("sync", "0"): "none",
    ("sync", "1"): "sync",
    ("verify", "none"): "0",
}
_SIZE: Final = re.compile(r"(\d{1,18})([kmgtp]?)(i?)(b?)")
_POWERS: Final = " kmgtp"
SETTINGS: Final = (*_DEFAULTS, "size", "filesize", "io_size")


def settings(jobs: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """What each setting is in these jobs, the options of each as printed; several values if they differ.

    A size that fio takes from the file itself is absent. Empty if a job states no options, as clients do.
    """
    if not all(jobs):
        return {}
    stated = [_effective({name: str(value).strip().lower() for name, value in job.items()}) for job in jobs]
    values = {name: sorted({job[name] for job in stated if name in job}) for name in SETTINGS}
    return {name: "/".join(of_jobs) for name, of_jobs in values.items() if of_jobs}


def _effective(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a job."""
    thousand = options.get("kb_base") == "1000"
    own = {name: _FLAGS.get(options[name], options[name]) for name in SETTINGS if name in options}
    own = {name: _ALIKE.get((name, value), value) for name, value in own.items()}
    if "buffered" in options and "direct" not in own:
        own["direct"] = "1" if options["buffered"] == "0" else "0"
    if "size" in own:
        own = {"filesize": own["size"], "io_size": own["size"], **own}
    own = {**_DEFAULTS, **own}
    return {name: _bytes(value, thousand) if name in _SIZES else value for name, value in own.items()}


def _bytes(text: str, thousand: bool) -> str:
    """A size in bytes, or several with what separates them.

    thousand  k is 1000 and ki is 1024, and not the reverse

    >>> _bytes("1m", False), _bytes("1024k", False), _bytes("4k,8kb", False), _bytes("50%", False)
    ('1048576', '1048576', '4096,8192', '50%')
    """

    def bytes_of(size: re.Match[str]) -> str:
        base = 1000 if thousand is not bool(size[3]) else 1024
        return str(int(size[1]) * base ** (_POWERS.find(size[2] or " ")))

    return _SIZE.sub(bytes_of, text)

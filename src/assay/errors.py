"""The error tree: one catch in the command line, one exit code per branch.

A message states where, what was found, what was expected and what to do next. A finding about the user's
input is an `InputError`; several at once are collected as `Problem`s in one `InputError`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

EXIT_OK = 0
EXIT_WORSE = 1  # the answer is no: a trial failed, an expectation does not hold
EXIT_USAGE = 2  # click's own: the command line is wrong
EXIT_UNDECIDED = 3  # the answer is unknown: too few runs
EXIT_INPUT = 4
EXIT_ENVIRONMENT = 5
EXIT_BUSY = 6
EXIT_INTERRUPTED = 130
MOST_SHOWN = 3  # files that a message names, if the machine can't read any of many
EXIT_READER_GONE = 141  # the shell's number for SIGPIPE
CODES_OF_ANSWERS = frozenset(
    {EXIT_OK, EXIT_WORSE, EXIT_USAGE, EXIT_UNDECIDED, EXIT_INPUT, EXIT_ENVIRONMENT, EXIT_BUSY}
)
_MOUNT_LOST = frozenset({errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.EREMOTEIO})
_TOO_MANY_OPEN = frozenset({errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True)
class Problem:
    """One problem with an input, and where it is.

    where  file, with a line if known: `suite.yaml:7`
    what   what was found, what was expected, what to do
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class AssayError(Exception):
    """Anything that Assay reports to its user without a traceback."""

    exit_code = EXIT_WORSE


class InputError(AssayError):
    """The user's files, logs or names can't be used as they are; contains every problem found."""

    exit_code = EXIT_INPUT

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems = (Problem("", problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(p) if p.where else p.what for p in self.problems))


class OptionsError(InputError):
    """Options of a system that don't fit a job; `where` of a problem is the option, such as `resources`."""


class HostError(AssayError):
    """The machine can't do what was requested: no space, no permission, a program missing."""

    exit_code = EXIT_ENVIRONMENT


class UnreadableError(HostError):
    """Files exist but can't be read now: a disk that fails, a file server that is gone. No file is damaged.

    It is never a property of what the files contain, so nothing may be recorded from it.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if (more := len(self.problems) - MOST_SHOWN) > 0:
            shown.append(f"and {more} more, for such a reason")
        super().__init__("\n".join(shown))


class PluginError(HostError):
    """What another installed package adds to Assay can't be used; the message names the package."""


class BusyError(AssayError):
    """Another Assay process holds this run."""

    exit_code = EXIT_BUSY


class LaunchError(AssayError):
    """A job could not be started or was lost by its platform."""

    exit_code = EXIT_ENVIRONMENT


class PlatformError(LaunchError):
    """The platform can't be used, whatever the job: not logged in, not reachable, not installed."""


class UnansweredError(PlatformError):
    """The platform did not answer: whether it did what was requested is unknown, and can be checked later."""


class InterruptedRun(AssayError):  # noqa: N818  (not an error: the user requested it)
    """The user stopped it (Ctrl-C, SIGTERM); everything that was started has been ended."""

    exit_code = EXIT_INTERRUPTED


class ReaderGoneError(Exception):
    """Nobody reads the output any more, as after `head`: not a user error, and not an answer."""


NO_TEMPORARY_DIRECTORY = (
    "no directory for temporary files can be written (/tmp, /var/tmp): set TMPDIR to one that can be, "
    "such as a volume of the container"
)


def machine_advice(error: OSError) -> str:
    """What to do about a file that the machine can't use now."""
    if error.errno in _MOUNT_LOST:
        return "mount its file system again (`findmnt` shows it), then run the same command again"
    if error.errno in _TOO_MANY_OPEN:
        return "raise the limit of open files (`ulimit -n`), then run the same command again"
    if error.errno == errno.EIO:
        return (
            "its disk or file server fails (`dmesg` may say why); once that is over, run the same command "
            "again. Don't remove anything because of it"
        )
    return "no file is damaged by this; once the cause is gone, run the same command again"

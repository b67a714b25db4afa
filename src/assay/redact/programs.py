"""Which options of a program take a password: `-p` does for `mysql`, not for `mkdir` or `docker run`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Program:
    """The options of a program that take a secret.

    password   the value is the secret
    user       the value is a user, then the sign that is given here, then the secret
    prefixed   the value is a kind, a colon, then the secret: `pass:…`
    login      pattern of the key that is an argument by itself: `wandb login KEY`
    """

    password: Set[str] = frozenset()
    user: Mapping[str, str] = field(default_factory=dict)
    prefixed: Set[str] = frozenset()
    login: str = ""


NO_PASSWORD = Program()
UNKNOWN = Program(user={"-u": ":", "--user": ":"})  # a program of the user's own
# The first name that fits counts; * stands for any letters. Those without a password keep their -p and -u.
_PROGRAMS: tuple[tuple[str, Program], ...] = (
    ("mysql* mariadb* mongo* sshpass login cqlsh", Program(frozenset({"-p"}))),
    ("redis-cli redis-benchmark", Program(frozenset({"-a"}))),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare", Program(frozenset({"-w"}))),
    ("ldappasswd", Program(frozenset({"-w", "-a", "-s"}))),
    ("ipmitool mosquitto_pub mosquitto_sub sqlcmd bcp zip unzip", Program(frozenset({"-P"}))),
    (
        "openssl",
        Program(frozenset({"-k", "-K"}), prefixed=frozenset({"-pass", "-passin", "-passout", "-password"})),
    ),
    ("curl", Program(user=dict.fromkeys(("-u", "-U", "--user", "--proxy-user"), ":"))),
    ("http https xh hey", Program(user={"-a": ":"})),
    ("ab", Program(user={"-A": ":", "-P": ":"})),
    ("lftp", Program(user={"-u": ","})),
    ("smbclient rpcclient", Program(user={"-U": "%"})),
    ("wandb", Program(login=r"[a-f0-9]{40}|wandb_v\d_\w{20,}")),
    ("docker podman nerdctl kubectl chown su sudo mkdir cp mv install perf sort ssh scp rsync", NO_PASSWORD),
    ("aws git npm skopeo srun sbatch mpirun mpiexec ps tar gcc make nice time taskset numactl", NO_PASSWORD),
)


def program(word: str) -> Program | None:
    """What is known of the program of this name or path; None for others."""
    name = word.strip("\"'").rpartition("/")[2]
    if not re.fullmatch(r"[\w.-]+", name):
        return None
    fits = (known for names, known in _PROGRAMS if any(fnmatchcase(name, one) for one in names.split()))
    return next(fits, None)

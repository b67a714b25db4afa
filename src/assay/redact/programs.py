"""Which options of a program take a password: `-p` does for `mysql`, not for `mkdir` or `docker run`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache


@dataclass(frozen=True)
class SecretOptions:
    """The options of a program that take a secret.

    password   the value is the secret
    user       the value is a user, then the sign given here, then the secret
    prefixed   the value is a kind, a colon, then the secret: `pass:…`
    login      pattern of a key that is an argument on its own: `wandb login KEY`
    """

    password: Set[str] = frozenset()
    user: Mapping[str, str] = field(default_factory=dict)
    prefixed: Set[str] = frozenset()
    login: str = ""


NO_PASSWORD = SecretOptions()
UNKNOWN = SecretOptions(user={"-u": ":", "--user": ":"})  # a program of the user's own
# The first matching name counts; * matches any letters. Programs without a password keep their -p and -u.
_PROGRAMS: tuple[tuple[str, SecretOptions], ...] = (
    ("mysql* mariadb* mongo* sshpass login cqlsh racadm 7z", SecretOptions(frozenset({"-p"}))),
    ("redis-cli redis-benchmark", SecretOptions(frozenset({"-a"}))),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare", SecretOptions(frozenset({"-w"}))),
    ("ldappasswd", SecretOptions(frozenset({"-w", "-a", "-s"}))),
    ("ipmitool mosquitto_pub mosquitto_sub sqlcmd bcp zip unzip", SecretOptions(frozenset({"-P"}))),
    (
        "openssl",
        SecretOptions(
            frozenset({"-k", "-K"}), prefixed=frozenset({"-pass", "-passin", "-passout", "-password"})
        ),
    ),
    ("curl", SecretOptions(user=dict.fromkeys(("-u", "-U", "--user", "--proxy-user"), ":"))),
    ("snmpget snmpwalk snmpset snmpbulkwalk", SecretOptions(frozenset({"-A", "-X"}))),
    ("http https xh hey", SecretOptions(user={"-a": ":"})),
    ("ab", SecretOptions(user={"-A": ":", "-P": ":"})),
    ("lftp", SecretOptions(user={"-u": ","})),
    ("smbclient rpcclient", SecretOptions(user={"-U": "%"})),
    ("wandb", SecretOptions(login=r"[a-f0-9]{40}|wandb_v\d_\w{20,}")),
    ("docker podman nerdctl kubectl chown su sudo mkdir cp mv install perf sort ssh scp rsync", NO_PASSWORD),
    ("aws git npm skopeo srun sbatch mpirun mpiexec ps tar gcc make nice time taskset numactl", NO_PASSWORD),
)


# What every name of a program whose options take a secret begins with, in lowercase
LITERALS = tuple(
    sorted(
        {
            name.rstrip("*").encode()
            for names, known in _PROGRAMS
            if known is not NO_PASSWORD
            for name in names.split()
        }
    )
)


@lru_cache(maxsize=4096)
def program(word: str) -> SecretOptions | None:
    """What is known about the program with this name or path; None for others."""
    name = word.strip("\"'").rpartition("/")[2]
    if not re.fullmatch(r"[\w.-]+", name):
        return None
    fits = (
        known for names, known in _PROGRAMS if any(fnmatchcase(name, pattern) for pattern in names.split())
    )
    return next(fits, None)

"""Secrets among the arguments of a known program, anywhere in a text: `+ curl -u me:hunter2 https://x`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from assay.redact.names import is_secret_name, is_setting

_REST = re.compile(r"(?:[^\n\\]|\\.){0,2000}", re.DOTALL)  # of a line that may go on after a backslash
# Words of a shell, and of a list that Python or JSON prints
_WORD = re.compile(r"(?:[^\s\"'=]+=)?(?:'[^'\n]*'|\"[^\"\n]*\")|[^\s\"']+")
_BETWEEN_WORDS = re.compile(r"[\s\"'\\,\[\]]*")
_NO_SECRET = re.compile(r"[$<{(%\[*]|\W*$")  # a placeholder, or the end of a list
_WORDLIKE = re.compile(r"[A-Za-z_./-]+|[\d.:]+")  # more often a word of prose than a password
_NAME = re.compile(r"(?<![A-Za-z0-9])[a-z][\w.-]{1,40}(?=[\s\"',])")
_END = re.compile(r"[\"'\\]")
_WORDS = re.compile(r"\s+|(?:'[^']*'|\"[^\"]*\"|[^\s'\"]|['\"])+")
_ELSEWHERE = re.compile(r"[\"']?(\$|<.*>|\{|\(|os\.|\w*getenv)|-|=")  # not a value, but the place of one
_END_OF_COMMAND = frozenset({"&&", "||", "|", ";", "&"})
_SETS = frozenset({"set", "config"})  # aws configure set NAME VALUE, git config NAME VALUE
# After -p of an unknown program: no name of a directory, a model, or a precision looks like this.
_LOOKS_DRAWN = re.compile(
    r"(?=.*\d)(?=.*[A-Za-z])(?:(?=.*[!@#$%^&*?~])[^\s/:=,]{6,}|(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9]{12,})"
)
_OF_ANY_PROGRAM = {"--creds": ":"}
_FLAGS = re.compile(r"-[A-Za-z]{2,6}")  # -su is -s -u
_HEADER = re.compile(r"(?P<keep>[\"']?(?P<name>[\w-]+):\s*)(?P<value>.+)")


def in_commands(text: str, lower: bytes) -> Iterator[tuple[int, int]]:
    """Where each value is. `lower` is the text in lowercase, one byte per character."""
    if b"-" not in lower:
        return
    for literal in LITERALS:
        position = lower.find(literal)
        while position >= 0:
            end = position + len(literal)
            if _begins_command(text, position) and (rest := _REST.match(text, position)):
                end = rest.end()
                yield from _values(text, position, end)
            position = lower.find(literal, end)


def _begins_command(text: str, position: int) -> bool:
    name = _NAME.match(text, position)
    return name is not None and program(name[0]) not in (None, NO_PASSWORD)


def _values(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    tokens = [word for word in _WORD.finditer(text, begin, end) if not _BETWEEN_WORDS.fullmatch(word[0])]
    arguments = program_arguments([word[0].strip("\"'") for word in tokens])
    for word, argument in zip(tokens, arguments, strict=True):
        cut = _END.search(argument.secret)
        value = argument.secret[: cut.start()] if cut else argument.secret
        follows_user = argument.shown[-1:] in (":", ",", "%")
        if len(value) < 4 or _NO_SECRET.match(value) or (_WORDLIKE.fullmatch(value) and not follows_user):
            continue
        start = text.rfind(argument.secret, word.start(), word.end())
        yield start, start + len(value)


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


@dataclass(frozen=True)
class Argument:
    """An argument in parts: what may be shown, then the secret; "" if there is none.

    sure  the secret is certain, not a guess, and may be searched for elsewhere
    """

    shown: str
    secret: str = ""
    sure: bool = True


def arguments(items: Sequence[str]) -> Iterator[Argument]:
    """Each argument with the secret that it contains, if any."""
    runs = UNKNOWN
    for earlier, before, item in zip(["", "", *items], ["", *items], items, strict=False):
        runs = _program(runs, before, item)
        yield _argument(item, before, earlier, runs)


def program_arguments(items: Sequence[str]) -> Iterator[Argument]:
    """The same for the options of known programs alone: what only a name reveals stays."""
    runs = UNKNOWN
    for before, item in zip(["", *items], items, strict=False):
        runs = _program(runs, before, item)
        if runs is UNKNOWN:
            yield Argument(item)
        elif attached := _attached(item, runs):
            yield attached
        elif before in runs.password and not _elsewhere(item):
            yield Argument("", item)
        else:
            yield _within(item, before, runs)


def _program(runs: SecretOptions, before: str, item: str) -> SecretOptions:
    """The program whose options come next."""
    if before in _END_OF_COMMAND or before.endswith(";"):
        runs = UNKNOWN
    known = program(item)
    if known is None or (known is NO_PASSWORD and before.startswith("-")):  # `mysql -u docker -p…`
        return runs
    return runs if runs.login and item == "login" else known


def words_of(command: str) -> list[str]:
    """A shell line as words and the spaces between them, keeping quotes."""
    return _WORDS.findall(command)


def _argument(item: str, before: str, earlier: str, runs: SecretOptions) -> Argument:
    if before == "-c" and any(map(str.isspace, item)):  # a shell line with arguments in it
        return Argument(item)
    if (attached := _attached(item, runs)) is not None:
        return attached
    name, equals, value = item.partition("=")
    if equals and is_secret_name(name) and not re.search(r"\s", name):
        setting = _elsewhere(value) or is_setting(name, value)
        return Argument(item) if setting else Argument(f"{name}=", value)
    if _elsewhere(item):
        return Argument(item)
    if before not in _OF_ANY_PROGRAM and _is_password(item, before, earlier, runs):
        return Argument("", item)
    if before == "-p" and runs is UNKNOWN and _LOOKS_DRAWN.fullmatch(item):
        return Argument("", item, sure=False)
    return _within(item, before, runs)


def _attached(item: str, runs: SecretOptions) -> Argument | None:
    """A secret in one argument with its option: `-phunter2`, `-ume:hunter2`, `--user=me:hunter2`."""
    for option in sorted(runs.password):
        if len(option) == 2 and item.startswith(option) and len(item) > 2 and item[2] != "$":
            return Argument(option, item[2:])
    for option, sign in (*runs.user.items(), *_OF_ANY_PROGRAM.items()):
        start = option if len(option) == 2 else f"{option}="
        if item.startswith(start) and (runs is not UNKNOWN or len(option) > 2):
            user, separator, secret = item[len(start) :].partition(sign)
            if separator and secret and secret[0] != "$":
                return Argument(f"{start}{user}{separator}", secret)
    return None


def _is_password(item: str, before: str, earlier: str, runs: SecretOptions) -> bool:
    named = "=" not in before and is_secret_name(before)
    return (
        before in runs.password
        or (named and (before.startswith("-") or earlier in _SETS))
        or bool(runs.login and re.fullmatch(runs.login, item.strip("\"'")))
    )


def _within(item: str, before: str, runs: SecretOptions) -> Argument:
    """An argument that is partly secret: `me:hunter2`, `pass:hunter2`, `X-Auth-Token: hunter2`."""
    if before in runs.prefixed:
        kind, _, secret = item.partition(":")
        return Argument(f"{kind}:", secret) if kind.strip("\"'") == "pass" else Argument(item)
    if (
        before in ("-H", "--header")
        and (header := _HEADER.fullmatch(item))
        and is_secret_name(header["name"])
    ):
        return Argument(header["keep"], header["value"])
    short = f"-{before[-1]}" if _FLAGS.fullmatch(before) else ""
    sign = _OF_ANY_PROGRAM.get(before) or runs.user.get(before) or runs.user.get(short)
    user, separator, secret = item.partition(sign) if sign else ("", "", "")
    ids = runs is UNKNOWN and secret.isdigit()  # -u 1000:1000
    return (
        Argument(f"{user}{separator}", secret) if secret and secret[0] != "$" and not ids else Argument(item)
    )


def is_shell_line(text: str) -> bool:
    """Whether a text contains a program or an option that may take a secret."""
    tokens = text.split()
    return len(tokens) > 1 and any(
        program(word) is not None or (word.startswith("--") and is_secret_name(word)) for word in tokens
    )


def _elsewhere(value: str) -> bool:
    """Whether this is not a value but a variable, a placeholder, or another option."""
    return not value or _ELSEWHERE.match(value) is not None

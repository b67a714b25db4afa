"""Replacements for the names of machines and people in a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from assay.records import Result

LEFT_OUT = "host names, user names, home directories, boot IDs and anything else that identifies a machine"
_HOME = re.compile(r"(?<![\w.])/(?:(?:home|Users)/(?P<user>[A-Za-z0-9._-]+)|root)(?=/|\b)")
_HOST_FACTS = re.compile(r"host|ssh\.host|kubernetes\.node|kubernetes\.label\..*hostname")
_ID_FACTS = re.compile(r"boot_id|gpu\..*\.uuid|machine_id|kubernetes\.pod")
_COMMON = frozenset({"localhost", "user", "root", "node", "host"})


@dataclass(frozen=True)
class Pseudonyms:
    """Names of machines and people, longest first, with the replacement for each.

    hosts  name → `host-1`, the same on the whole page, so that machines can be distinguished
    ids    boot IDs and the like
    users  names of people, hidden in paths and before an @
    """

    hosts: dict[str, str]
    ids: tuple[str, ...]
    users: tuple[str, ...]

    def text(self, text: str) -> str:
        """The text without these names."""
        for name in self.ids:
            text = text.replace(name, "(left out)")
        for name, number in self.hosts.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", number, text)
        text = _HOME.sub("~", text)
        for name in self.users:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?=@)|(?<=/){re.escape(name)}(?=/)", "user", text)
        return text


def anonymous(
    results: Sequence[Result], hosts: Sequence[str], texts: Iterable[str], sides: Iterable[str]
) -> Pseudonyms:
    """The names of the runs' machines and people.

    hosts  where Assay itself ran
    texts  command lines and files, whose home directories name people
    sides  names that the report needs, even if machines have the same name
    """
    facts = [fact for r in results if r.provenance for node in r.provenance.nodes for fact in node.items()]
    named = [str(value) for name, value in facts if _HOST_FACTS.fullmatch(name) and value]
    kept = {*_COMMON, *sides}
    machines = dict.fromkeys(name.partition(".")[0] for name in chain(hosts, named))
    number = {name: f"host-{index}" for index, name in enumerate(machines, start=1)}
    forms = {name: number[name.partition(".")[0]] for name in chain(machines, hosts, named)}
    ids = {str(value) for name, value in facts if _ID_FACTS.fullmatch(name) and value}
    users = {match["user"] for text in texts for match in _HOME.finditer(text) if match["user"]} - kept
    longest = sorted((name for name in forms if len(name) > 1 and name not in kept), key=len, reverse=True)
    return Pseudonyms(
        {name: forms[name] for name in longest},
        tuple(sorted(ids, key=len, reverse=True)),
        tuple(sorted(users)),
    )

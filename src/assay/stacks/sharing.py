"""Observations shared with others: signed bundles without anything private, and the keys that are trusted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import EXIT_OK, EXIT_WORSE, InputError
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, argument, function, option, question
from assay.stacks.keys import key_text, own_signer, public_key, trusted_keys, write_trusted_keys
from assay.units import counted
from assay.view.blocks import Block, Paragraph

if TYPE_CHECKING:
    from assay.stacks.bundles import Conflict


@dataclass(frozen=True)
class ExportedBundle(Answer):
    """The result of `export_stacks`.

    key       of the signature, which others have to trust
    shared    observations in it
    withheld  observations that are not, because their workload or hardware may be private
    """

    path: Path
    key: str
    shared: int
    withheld: int

    def view(self) -> Iterator[Block]:
        """The file, what is in it, and what those who import it do first."""
        yield Paragraph(f"{self.path}: {counted(self.shared, 'observation')}, signed by {self.key}")
        if self.withheld:
            what = counted(self.withheld, "observation")
            yield Paragraph(f"Withheld: {what} of workloads or hardware that may be private.")
        yield Paragraph("Those who import it first run, with the key from you and not from the file:")
        yield Paragraph(f"  assay stack trust {self.key}")

    def document(self) -> dict[str, Any]:
        """The file, its key, and what it has."""
        return {"schema": "assay.stack-export/1", **asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class ImportedBundle(Answer):
    """The result of `import_stacks` for one file.

    added      observations that were not known
    conflicts  with what the same party stated before
    """

    path: Path
    key: str
    name: str
    observations: int
    added: int
    conflicts: tuple[Conflict, ...]

    @property
    def exit_code(self) -> int:
        """1 if something contradicts what the same party stated before."""
        return EXIT_WORSE if self.conflicts else EXIT_OK

    def view(self) -> Iterator[Block]:
        """What is new, and each conflict."""
        party = f"{self.name} ({self.key})" if self.name else self.key
        observations = counted(self.observations, "observation")
        yield Paragraph(f"{observations} of {party}, {self.added or 'none'} of them new.")
        for conflict in self.conflicts:
            kept, other = conflict.kept, conflict.other
            lines = (
                f"! conflict in session {kept.session}, stack {kept.stack.digest[:8]}:",
                f"    kept   {[list(value) for value in kept.values]}",
                f"    other  {[list(value) for value in other.values]}",
            )
            yield Paragraph("\n".join(lines))

    def document(self) -> dict[str, Any]:
        """What came in, and each conflict."""
        conflicts = [
            {
                "session": conflict.kept.session,
                "stack": conflict.kept.stack.digest,
                "kept": [list(value) for value in conflict.kept.values],
                "other": [list(value) for value in conflict.other.values],
            }
            for conflict in self.conflicts
        ]
        return {
            "schema": "assay.stack-import/1",
            "key": self.key,
            "name": self.name,
            "observations": self.observations,
            "added": self.added,
            "conflicts": conflicts,
        }


@dataclass(frozen=True)
class TrustedKeys(Answer):
    """The result of `trust_key`: the own key, and key → name of the trusted ones."""

    own: str
    trusted: Mapping[str, str]

    def view(self) -> Iterator[Block]:
        """A line for each key."""
        yield Paragraph(f"own      {self.own}")
        for key, owner in sorted(self.trusted.items()):
            yield Paragraph(f"trusted  {key}  {owner}".rstrip())

    def document(self) -> dict[str, Any]:
        """The keys."""
        return {"schema": "assay.stack-keys/1", "own": self.own, "trusted": dict(self.trusted)}


@question
class ExportStacks(Question):
    """Write what the runs of this directory observed of stacks as a signed bundle.

    Only what is known to be public goes into it: Assay's own workloads, packages on PyPI, versions, figures,
    the day. Hostnames, users, paths, names of suites, the environment and texts of logs stay here. The key
    is made on first use; those who import the bundle have to trust it.

    \b
    Example:
      assay stack export -o observations.json
    """

    path: Reference = option("File to write.", names=("-o", "--output"), metavar="FILE", local=True)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> ExportedBundle:
        """What was written; what others observed is not passed on: they sign for it themselves.

        Raises InputError if there is nothing to share, HostError if the library that signs is missing or the
        file can't be written.
        """
        from assay.durable import deliver
        from assay.stacks.bundles import bundle_of, signed
        from assay.stacks.known import known
        from assay.stacks.scrubbing import Scrubber

        directory = runs_directory(self.runs)
        own = [observation for observation in known(directory).observations if not observation.origin]
        signer = own_signer(directory)
        scrubber = Scrubber(hashlib.sha256(b"assay-left-out" + signer.private_bytes).digest())
        shared = [public for observation in own if (public := scrubber.observation(observation)) is not None]
        if not shared:
            why = f": {len(own)} observations are of workloads or hardware that may be private" if own else ""
            raise InputError(f"{directory}: there is nothing to share{why}")
        deliver(Path(self.path), signed(bundle_of(shared), signer), option="-o")
        return ExportedBundle(
            Path(self.path), key_text(signer.public_key), len(shared), len(own) - len(shared)
        )


def export_stacks(path: str | PathLike[str], *, runs: str | PathLike[str] | None = None) -> ExportedBundle:
    """Write what this directory's runs observed as a signed bundle, like `assay stack export -o FILE`."""
    return ExportStacks(path=path, runs=runs).answer()


@question
class ImportStacks(Question):
    """Take in BUNDLE, which a trusted key signed.

    It is kept unchanged, and counts as long as its key is trusted. If it contradicts what the same party
    stated before, the earlier statement stays and both are shown.

    \b
    Example:
      assay stack trust ed25519:…   --name lab-b
      assay stack import observations.json

    \b
    Exit codes: 0 imported; 1 imported, with conflicts; 4 not a bundle, changed, or of an unknown key.
    """

    path: Reference = argument(metavar="BUNDLE")
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> ImportedBundle:
        """What came in. Raises InputError if it is no bundle of a trusted key; nothing changes then."""
        from assay.durable import make_directory, write_atomic
        from assay.inputs import read_whole
        from assay.stacks import bundles
        from assay.stacks.bundles import read_recorded
        from assay.stacks.storage import bundle_names, bundles_dir

        directory, source = runs_directory(self.runs), Path(self.path)
        trusted = trusted_keys(directory)
        key, bundle = bundles.opened(source, trusted)
        data = read_whole(source, bundles.LARGEST_BYTES)
        before = [
            observation for name in bundle_names(directory) for observation in read_recorded(directory, name)
        ]
        new = list(bundles.observations(bundle, key))
        known, _ = bundles.merged(before)
        together, conflicts = bundles.merged([*before, *new])
        make_directory(bundles_dir(directory))
        name = f"{key[8:24]}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        write_atomic(bundles_dir(directory) / name, data)
        return ImportedBundle(
            source, key, trusted[key], len(new), len(together) - len(known), tuple(conflicts)
        )


import_stacks = function(ImportStacks, ImportStacks.answer)


@question
class TrustKey(Question):
    """Trust KEY: bundles that it signed can be imported, and count. Without KEY, show the keys.

    Get the key from its owner by another way than the bundle itself.

    \b
    Examples:
      assay stack trust
      assay stack trust ed25519:… --name lab-b
      assay stack trust ed25519:… --remove
    """

    key: str | None = argument(default=None)
    name: str = option("What to call the key's owner.", default="", metavar="TEXT")
    remove: bool = option("Stop trusting the key: its bundles no longer count.", default=False)
    runs: str | PathLike[str] | None = option(RUNS, default=None, local=True)

    def answer(self) -> TrustedKeys:
        """The keys. Raises InputError if it is not a key, or is the own one."""
        directory = runs_directory(self.runs)
        own = key_text(own_signer(directory).public_key)
        trusted = dict(trusted_keys(directory))
        key = self.key
        if key is not None:
            public_key(key)
            if key == own:
                raise InputError(f"{key}: this is the own key; its runs are here already")
            if self.remove and key not in trusted:
                raise InputError(f"{key}: it is not trusted")
            if self.remove:
                del trusted[key]
            else:
                trusted[key] = self.name or trusted.get(key, "")
            write_trusted_keys(directory, trusted)
        return TrustedKeys(own, trusted)


trust_key = function(TrustKey, TrustKey.answer)

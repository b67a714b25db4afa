"""Observations shared with others: signed bundles without anything private, and the keys that are trusted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from os import PathLike

    from assay.stacks.bundles import Conflict


@dataclass(frozen=True)
class ExportedBundle:
    """The result of `export_stacks`.

    key       of the signature, which others have to trust
    shared    observations in it
    withheld  observations that are not, because their workload or hardware may be private
    """

    path: Path
    key: str
    shared: int
    withheld: int


@dataclass(frozen=True)
class ImportedBundle:
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


@dataclass(frozen=True)
class TrustedKeys:
    """The result of `trust_key`: the own key, and key → name of the trusted ones."""

    own: str
    trusted: Mapping[str, str]


def export_stacks(path: str | PathLike[str], *, runs: str | PathLike[str] | None = None) -> ExportedBundle:
    """Write what this directory's runs observed as a signed bundle, like `assay stack export -o FILE`.

    What others observed is not passed on: they sign for it themselves. Raises InputError if there is nothing
    to share, HostError if the library that signs is missing or the file can't be written.
    """
    from assay.durable import deliver
    from assay.questions.stack_knowledge import known
    from assay.stacks import keys
    from assay.stacks.bundles import bundle_of, signed
    from assay.stacks.scrubbing import Scrubber

    directory = runs_directory(runs)
    own = [observation for observation in known(directory).observations if not observation.origin]
    signer = keys.own_signer(directory)
    scrubber = Scrubber(hashlib.sha256(b"assay-left-out" + signer.private_bytes).digest())
    shared = [public for observation in own if (public := scrubber.observation(observation)) is not None]
    if not shared:
        why = f": {len(own)} observations are of workloads or hardware that may be private" if own else ""
        raise InputError(f"{directory}: there is nothing to share{why}")
    deliver(Path(path), signed(bundle_of(shared), signer), option="-o")
    return ExportedBundle(Path(path), keys.written(signer.public_key), len(shared), len(own) - len(shared))


def import_stacks(path: str | PathLike[str], *, runs: str | PathLike[str] | None = None) -> ImportedBundle:
    """Take in a bundle that a trusted key signed, like `assay stack import FILE`.

    Raises InputError if it is not one, or its key is not trusted; nothing is changed then.
    """
    from assay.durable import make_directory, write_atomic
    from assay.inputs import read_whole
    from assay.stacks import bundles, keys
    from assay.stacks.bundles import read_recorded
    from assay.stacks.storage import bundle_names, bundles_dir

    directory, source = runs_directory(runs), Path(path)
    trusted = keys.trusted(directory)
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
    return ImportedBundle(source, key, trusted[key], len(new), len(together) - len(known), tuple(conflicts))


def trust_key(
    key: str | None = None, *, name: str = "", remove: bool = False, runs: str | PathLike[str] | None = None
) -> TrustedKeys:
    """Trust a key, or stop trusting it, like `assay stack trust KEY`; without one, what is trusted.

    name    what to call its owner
    remove  its bundles no longer count; they stay where they are

    Raises InputError if it is not a key, or is the own one.
    """
    from assay.stacks import keys

    directory = runs_directory(runs)
    own = keys.written(keys.own_signer(directory).public_key)
    trusted = dict(keys.trusted(directory))
    if key is not None:
        keys.public_key(key)
        if key == own:
            raise InputError(f"{key}: this is the own key; its runs are here already")
        if remove and key not in trusted:
            raise InputError(f"{key}: it is not trusted")
        if remove:
            del trusted[key]
        else:
            trusted[key] = name or trusted.get(key, "")
        keys.write_trusted(directory, trusted)
    return TrustedKeys(own, trusted)

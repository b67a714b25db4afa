"""The key that signs this directory's bundles, and those of others that are trusted."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.durable import make_directory, write_atomic
from assay.errors import HostError, InputError, Problem
from assay.inputs import read_json, read_whole
from assay.stacks.storage import own_key_file, trusted_keys_file

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

_WRITTEN: Final = re.compile(r"ed25519:[0-9a-f]{64}")
_MISSING: Final = "signing needs securesystemslib; install it with: pip install 'cluster-assay[stacks]'"


def own_signer(runs_dir: Path) -> CryptoSigner:
    """The key that signs this directory's bundles, made if there is none; only its owner can read the file.

    Raises HostError if the library is missing or the file can't be written, InputError if it is damaged.
    """
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from securesystemslib.signer import CryptoSigner
    except ImportError as error:
        raise HostError(_MISSING) from error
    path = own_key_file(runs_dir)
    if not path.exists():
        signer = CryptoSigner.generate_ed25519()
        make_directory(path.parent)
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(signer.private_bytes)
        new.rename(path)
        return signer
    try:
        return CryptoSigner(load_pem_private_key(read_whole(path), None))
    except (ValueError, TypeError) as error:
        what = f"not a private key ({error}); restore it, or remove it to get a new one"
        raise InputError([Problem(str(path), what)]) from error


def key_text(key: SSlibKey) -> str:
    """A public key as people exchange it: `ed25519:…`."""
    return f"ed25519:{key.keyval['public']}"


def public_key(text: str) -> SSlibKey:
    """The key that people wrote. Raises InputError for anything else, HostError without the library."""
    try:
        from securesystemslib.signer import SSlibKey
    except ImportError as error:
        raise HostError(_MISSING) from error
    if not _WRITTEN.fullmatch(text):
        raise InputError(
            f"{text!r} is not a key; write it as its owner's `assay stack trust` shows it: ed25519:…"
        )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = bytes.fromhex(text.removeprefix("ed25519:"))
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(raw))


def trusted_keys(runs_dir: Path) -> dict[str, str]:
    """The keys whose bundles are believed, as written, with the names that were given to them.

    Raises InputError if the file is damaged.
    """
    path = trusted_keys_file(runs_dir)
    if not path.is_file():
        return {}
    names: Any = read_json(path)
    if not isinstance(names, dict) or not all(
        _WRITTEN.fullmatch(key) and isinstance(name, str) for key, name in names.items()
    ):
        raise InputError(
            [Problem(str(path), "not a table of keys; restore it, or remove it and trust them again")]
        )
    return names


def write_trusted_keys(runs_dir: Path, keys: dict[str, str]) -> None:
    """Replace the keys whose bundles are believed."""
    path = trusted_keys_file(runs_dir)
    make_directory(path.parent)
    write_atomic(path, (json.dumps(keys, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())

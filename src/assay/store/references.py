"""From what people type to results: `suite`, `suite/session`, `suite:system`, a trial, a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError
from assay.store.layout import reading, trouble
from assay.store.query import Filter

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from assay.records import Provenance, Result

_WRITTEN = re.compile(r"([^/:]+)(?:/([^/:]+))?(?:/([^/:]+))?(?::([^/:]+))?")


class RunReference(NamedTuple):
    """The parts of `suite/session/trial:system`; only the suite is required."""

    suite: str
    session: str | None
    trial: str | None
    system: str | None


def parse(text: str) -> RunReference | None:
    """The parts of a typed reference; None if it does not have that form."""
    match = _WRITTEN.fullmatch(text.strip())
    return None if match is None else RunReference(*match.groups())


def find(root: Path, reference: str) -> list[Result]:
    """The results that a reference names, in the order of creation, including failed and unfinished ones.

    `suite` is its newest session; `suite:system` is every run of that system under the digest of the newest
    session; an imported set's name is everything imported under it, `name:system` a part of that. A path
    to a suite's, session's or trial's directory below `root` names what is in it.

    Raises InputError with the nearest names if nothing matches.
    """
    with reading(root) as index:
        run_reference = parse(reference)
        rows = [] if run_reference is None else _rows(index, run_reference)
        if not rows and reference and os.path.isdir(reference):  # noqa: PTH112 - False for what is no path
            run_reference = _from_path(root, reference)
            rows = [] if run_reference is None else _rows(index, run_reference)
        if not rows:
            raise InputError(_nothing(index, reference))
        tables = _provenances(index, {row[2] for row in rows})
        return _results(rows, tables)


def reporting(root: Path, metric: str, only: Filter) -> list[Result]:
    """Every finished run that reports this metric, oldest first.

    Raises InputError with the nearest metrics if none does.
    """
    where, values = only.sql()
    query = f"""
        SELECT run_json, reading_json, provenance_digest FROM runs
        WHERE {where} AND id IN (SELECT run_id FROM measurements WHERE metric = ?)
        ORDER BY created_at, id"""  # noqa: S608 - our own tests
    with reading(root) as index:
        rows = index.execute(query, [*values, metric]).fetchall()
        if not rows:
            raise InputError(_no_metric(index, metric, only))
        tables = _provenances(index, {row[2] for row in rows})
        return _results(rows, tables)


def durations(root: Path, digests: Collection[str]) -> dict[str, list[float]]:
    """Seconds from submission to end of every run that gave a result, by the digest of its trial.

    Runs that another Assay process took over are left out. Empty if there is no readable index.
    """
    if trouble(root) is not None:
        return {}
    query = """
        SELECT run_json->>'$.trial.digest' AS digest,
            (run_json->>'$.ended_at')::DOUBLE - created_at AS seconds
        FROM runs WHERE state = 'finished' AND cause = '' AND NOT imported
            AND run_json->>'$.adopted' = 'false' AND digest IN (SELECT unnest(?)) AND seconds > 0"""
    seconds_by_digest: dict[str, list[float]] = {}
    with reading(root) as index:
        for digest, seconds in index.execute(query, [list(digests)]).fetchall():
            seconds_by_digest.setdefault(digest, []).append(seconds)
    return seconds_by_digest


def session_stamps(root: Path) -> dict[str, str]:
    """What changes when a session's runs do, by `suite/session`, oldest first."""
    query = """
        SELECT suite || '/' || session, md5(string_agg(id || stamp, ' ' ORDER BY id)) FROM runs
        GROUP BY suite, session ORDER BY session, suite"""
    with reading(root) as index:
        return dict(index.execute(query).fetchall())


def _no_metric(index: DuckDBPyConnection, metric: str, only: Filter) -> str:
    if own := _metrics(index, Filter(suite=metric)):
        return (
            f"{metric} is a suite; the metric is missing: choose from {', '.join(own)}, "
            f"for example: assay history {own[0]} --suite {metric}"
        )
    known = _metrics(index, only)
    if not known:
        return f"{metric}: no matching run has any measurement; run `assay show` to see what is available"
    near = get_close_matches(metric, known, n=3, cutoff=0.5) or known
    return f"{metric}: no matching run reports it; available: {', '.join(near)}"


def _metrics(index: DuckDBPyConnection, only: Filter) -> list[str]:
    """What these runs report, sorted."""
    where, values = only.sql()
    query = f"SELECT DISTINCT metric FROM measurements JOIN runs ON run_id = id WHERE {where}"  # noqa: S608 - our own tests
    return sorted(name for (name,) in index.execute(query, values).fetchall())


def _rows(index: DuckDBPyConnection, reference: RunReference) -> list[tuple[str, str, str | None]]:
    """Run, reading and the digest of the provenance."""
    tests: dict[str, Any] = {"suite = ?": reference.suite}
    if reference.session is not None:
        tests["session = ?"] = reference.session
    elif reference.system is None:
        tests["(imported OR session = (SELECT max(session) FROM runs WHERE suite = ?))"] = reference.suite
    else:
        newest = "SELECT arg_max(suite_digest, session) FROM runs WHERE suite = ?"
        tests[f"(imported OR suite_digest = ({newest}))"] = reference.suite
    if reference.trial is not None:
        tests["trial = ?"] = reference.trial
    if reference.system is not None:
        tests["system = ?"] = reference.system
    query = f"""
        SELECT run_json, reading_json, provenance_digest FROM runs
        WHERE {" AND ".join(tests)} ORDER BY created_at, id"""  # noqa: S608 - our own tests
    return index.execute(query, list(tests.values())).fetchall()


def _results(
    rows: Sequence[tuple[str, str, str | None]], tables: Mapping[str | None, Provenance]
) -> list[Result]:
    from assay.records import Reading, Result, Run, from_json

    return [
        Result(from_json(Run, run), from_json(Reading, read), tables.get(digest))
        for run, read, digest in rows
    ]


def _provenances(index: DuckDBPyConnection, digests: set[str | None]) -> dict[str | None, Provenance]:
    from assay.records import Provenance, from_json

    rows = index.execute(
        "SELECT digest, provenance_json FROM provenances WHERE digest IN (SELECT unnest(?))",
        [sorted(digest for digest in digests if digest is not None)],
    ).fetchall()
    return {digest: from_json(Provenance, text) for digest, text in rows}


def _from_path(root: Path, text: str) -> RunReference | None:
    """What a directory below `root` names; None if it is elsewhere and the text is a name as well.

    Raises InputError if it is elsewhere and can only be a path.
    """
    path = Path(text).resolve()
    try:
        parts = path.relative_to(root.resolve()).parts
    except ValueError:
        if "/" not in text and text not in (".", ".."):
            return None
        raise InputError(
            f"{text}: not below the runs directory {root}; name the right one with --runs, or "
            "import it with `assay import`"
        ) from None
    if not 1 <= len(parts) <= 4:
        raise InputError(f"{text}: name a suite's, a session's or a trial's directory below {root}")
    suite, session, trial = (*parts, None, None)[:3]
    return RunReference(str(suite), session, trial, None)


def _nothing(index: DuckDBPyConnection, reference: str) -> str:
    """Why nothing was found, with the names nearest to the typed one."""
    sets = index.execute("SELECT DISTINCT suite, session, system FROM runs").fetchall()
    if not sets:
        return f"{reference}: there are no runs yet; to make some, run `assay run SUITE`"
    parsed = parse(reference)
    if parsed is not None and parsed.session is None:
        having = sorted(s for suite, s, system in sets if (suite, system) == (parsed.suite, parsed.system))
        if having:
            exact = f"{parsed.suite}/{having[-1]}:{parsed.system}"
            return (
                f"{reference}: the newest edition of {parsed.suite} has no runs of {parsed.system}; "
                f"the newest that has is {exact}, to be compared with other systems of that session"
            )
    names = {name for suite, session, system in sets for name in _names_of(suite, session, system)}
    near = get_close_matches(reference, sorted(names), n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{reference}: no runs with this name; {meant}`assay show` shows what is available"


def _names_of(suite: str, session: str, system: str) -> tuple[str, ...]:
    return suite, f"{suite}:{system}", f"{suite}/{session}", f"{suite}/{session}:{system}"

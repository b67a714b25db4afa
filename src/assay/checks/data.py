"""Whether the trials' data can be read, and fast enough. Pure; data_speed.py collects the facts."""

from __future__ import annotations

from assay.checks.check import Check, Facts, State, number, text
from assay.units import human

NAME = "data"
FEWEST_ROUNDS = 3  # needed for a verdict
MEASURE_MORE = "for a more precise measurement, use assay run with the workload `disk`"


def speed(facts: Facts, at_least: float | None) -> Check:
    """The speed at which a directory's files were read, compared with the required one, bytes/s."""
    where, error, rate = (facts.get(f"data.{name}") for name in ("directory", "error", "rate"))
    if error is not None:
        remedy = "check the path where the trials run: the system's volumes define what is mounted there"
        return Check(NAME, "fail", str(error), remedy)
    low, high = number(facts, "data.rate_low"), number(facts, "data.rate_high")
    if not isinstance(rate, int | float) or low is None or high is None:
        return Check(NAME, "unknown", text(facts, "data.unmeasured") or "its speed was not measured")
    read = (
        f"{human(number(facts, 'data.read_bytes') or 0.0, 'B')} of {_files(facts)} in "
        f"{where} ({text(facts, 'data.file_system')}), page cache {text(facts, 'data.page_cache')}"
    )
    spread = f"{human(low, 'B/s')} to {human(high, 'B/s')} in {facts.get('data.rates')} rounds"
    evidence = f"{human(rate, 'B/s')} ({spread}), {read}"
    if at_least is None:
        return Check(NAME, "ok", evidence)
    evidence += f"; required {human(at_least, 'B/s')}"
    if (number(facts, "data.rates") or 0) < FEWEST_ROUNDS:
        remedy = "name a directory that takes longer to read"
        return Check(NAME, "unknown", f"{evidence}: too few rounds to decide", remedy)
    if low >= at_least:
        return Check(NAME, "ok", f"{evidence}: fast enough in every round")
    state: State = "fail" if high < at_least else "warn"
    verdict = "too slow in every round" if state == "fail" else "too slow in some rounds: undecided"
    return Check(NAME, state, f"{evidence}: {verdict}", MEASURE_MORE)


def _files(facts: Facts) -> str:
    more = "" if facts.get("data.files_all_listed", True) else " listed first"
    return f"{facts.get('data.files')} files{more}"

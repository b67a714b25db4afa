"""What needs a look first."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from assay import store
from assay.questions.attention import attention
from observed_stacks import failed, results


def test_a_session_of_a_time_to_come_is_named_first(tmp_path: Path) -> None:
    at = time.time() + 8 * 3600
    store.update(tmp_path, [replace(one, run=replace(one.run, created_at=at)) for one in results(sessions=1)])
    first = attention(runs=tmp_path)[0]
    assert (first.kind, "a time that is 8.0 h from now" in first.words) == ("clock", True)


def test_it_hides_no_session_of_its_suite_that_has_failed_runs(tmp_path: Path) -> None:
    at = time.time() + 30 * 86400
    made = results(sessions=2)
    last = max(one.run.session for one in made)
    ahead = [replace(one, run=replace(one.run, created_at=at)) for one in made if one.run.session == last]
    today = [failed(one, "it crashed") for one in made if one.run.session != last]
    store.update(tmp_path, [*ahead, *today])
    kinds = {(one.kind, one.session) for one in attention(runs=tmp_path)}
    assert ("clock", f"stacks/{last}") in kinds
    assert "failed" in {kind for kind, session in kinds if session != f"stacks/{last}"}


def test_a_session_of_the_past_is_of_no_time_to_come(tmp_path: Path) -> None:
    store.update(tmp_path, results(sessions=1))
    assert "clock" not in {one.kind for one in attention(runs=tmp_path)}

"""The page of a software stack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.records import to_json
from assay.rundir.files import SCHEMA, Header, StepOf
from assay.stacks.known import known_stacks
from assay.web.stack_pages import sessions_observed
from observed_figures import observed


def test_a_stack_of_an_exploration_has_the_sessions_of_its_steps_and_no_page_that_is_not_there(
    tmp_path: Path,
) -> None:
    for name, step in (("q1/t1", StepOf("q1", 0.98)), ("q1/t2", StepOf("q1", 0.98)), ("s/1", None)):
        (tmp_path / name).mkdir(parents=True)
        header = Header(SCHEMA, "0", name.partition("/")[0], "", "", 1.8e9, "host", step_of=step)
        (tmp_path / name / "session.json").write_text(to_json(header))
    ordinary = observed("2.9.0", 1, [1.0])
    explored = replace(ordinary, session="q1")
    not_built = replace(ordinary, session="q1/s03", failure="does not import", metric=None, values=())
    (stack,) = known_stacks([ordinary, explored, not_built])
    assert sessions_observed(tmp_path, stack) == [
        (name, f"/sessions/{name}") for name in ("q1/t1", "q1/t2", "s/1")
    ]

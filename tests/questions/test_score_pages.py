from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.questions.score_pages import SETS, score_page, score_set


def write_log(folder: Path, minutes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    events = (
        ("POINT_IN_TIME", "submission_benchmark", "resnet", 0),
        ("INTERVAL_START", "run_start", None, 0),
        ("INTERVAL_END", "run_stop", None, minutes),
    )
    lines = [
        {"namespace": "", "time_ms": 60_000 * at, "event_type": kind, "key": key, "value": value,
         "metadata": {"file": "x", "lineno": 1} | ({"status": "success"} if key == "run_stop" else {})}
        for kind, key, value, at in events
    ]  # fmt: skip
    (folder / "result_0.txt").write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at in range(SETS + 2):
        write_log(tmp_path / f"sys{at:02}" / "resnet", at + 1)
    return tmp_path


def test_a_page_has_its_sets_and_the_last_one_the_rest(folder: Path) -> None:
    first, last = score_page(folder), score_page(folder, number=99)
    assert (len(first.sets), len(first.names), first.pages) == (SETS, SETS + 2, 2)
    assert [one.name for one in last.sets] == [f"sys{SETS:02}/resnet", f"sys{SETS + 1:02}/resnet"]
    assert [one.name for one in score_page(folder, words="RESNET 07").sets] == ["sys07/resnet"]
    assert score_page(folder, words="nothing").sets == ()


def test_a_set_is_read_again_only_when_its_logs_have_changed(folder: Path) -> None:
    before, _ = score_set(folder, "sys00/resnet")
    again, directory = score_set(folder, "sys00/resnet")
    assert again is before
    write_log(directory, 7)
    after, _ = score_set(folder, "sys00/resnet")
    assert [run.minutes for run in (*before.runs, *after.runs)] == [1.0, 7.0]


def test_a_set_that_does_not_exist_is_an_error_that_names_it(folder: Path) -> None:
    with pytest.raises(InputError, match="no set sys00/bert"):
        score_set(folder, "sys00/bert")

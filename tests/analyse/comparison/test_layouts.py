"""Shapes of equally many ranks held against each other, where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import read, store
from assay.analyse.judgement import compare_with_doubts
from assay.cli import assay
from assay.errors import InputError
from assay.rundir import session as rundir
from stated_runs import metrics, side

FEW, MANY = [100.0, 101.0, 102.0], [50.0, 50.5, 51.0]


def held(a: object, b: object, *, layouts: bool = True) -> object:
    return compare_with_doubts(a, b, margin=0.02, names=("few", "many"), metrics=metrics(), layouts=layouts)  # type: ignore[arg-type]


def test_shapes_of_equally_many_ranks_are_compared_under_their_own_names() -> None:
    found = held(side(FEW, shape="2x8"), side(MANY, system="b", shape="16x1"))
    (comparison,) = found.comparisons  # type: ignore[attr-defined]
    assert (comparison.a, comparison.b) == ("few as 2x8", "many as 16x1")
    assert comparison.ratio.value == pytest.approx(0.5)
    assert found.left_out == ()  # type: ignore[attr-defined]


def test_without_asking_shapes_are_never_mixed() -> None:
    found = held(side(FEW, shape="2x8"), side(MANY, system="b", shape="16x1"), layouts=False)
    assert found.comparisons == ()  # type: ignore[attr-defined]


def test_an_equal_shape_goes_before_an_equal_number_of_ranks() -> None:
    b = side(MANY, system="b", shape="16x1") + side(FEW, system="b", shape="2x8")
    (comparison,) = held(side(FEW, shape="2x8"), b).comparisons  # type: ignore[attr-defined]
    assert (comparison.b, comparison.ratio.value) == ("many", 1.0)


def test_other_numbers_of_ranks_and_several_layouts_are_left_out() -> None:
    a = side(FEW, shape="2x8") + side(FEW, shape="4x4") + side(FEW, shape="1x2")
    found = held(a, side(MANY, system="b", shape="16x1") + side(MANY, system="b", shape="4x1"))
    assert found.comparisons == ()  # type: ignore[attr-defined]
    assert len(found.left_out) == 5  # type: ignore[attr-defined]


def taken(folder: Path, *rows: str) -> Path:
    """The runs of a sheet whose last columns say how they were made."""
    sheet = folder / "nccl.csv"
    header = "system,workload,shape,metric,unit,run,value,payload_bytes,device_name,global_batch_size"
    sheet.write_text("\n".join([header, *rows]) + "\n")
    runs = folder / "runs"
    ran = CliRunner().invoke(assay, ["import", str(sheet), "--runs", str(runs)])
    assert ran.exit_code == 0, ran.output
    return runs


def test_columns_that_say_how_a_run_was_made_are_facts_and_no_labels(tmp_path: Path) -> None:
    runs = taken(tmp_path, "a,train,1x8,throughput,images/s,1,100,,V100-SXM2,256")
    ((session,),) = [list(rundir.sessions(runs))]
    (attempt,) = session.last_attempts().values()
    found = read.result(attempt).reading
    assert found.facts == {"device_name": "V100-SXM2", "global_batch_size": 256}
    assert found.measurements[0].labels == {}


def test_rows_of_one_run_that_contradict_each_other_are_no_result(tmp_path: Path) -> None:
    runs = taken(
        tmp_path,
        "a,train,1x8,throughput,images/s,1,100,,V100-SXM2,256",
        "a,train,1x8,latency,ms,1,100,,V100-SXM2,512",
    )
    (result,) = store.find(runs, "nccl")
    assert "contradict each other in device_name, global_batch_size" in result.run.cause


def test_bandwidth_of_separate_workers_is_doubted_by_the_command(tmp_path: Path) -> None:
    rows = [
        f"{system},all-reduce,{shape},busbw,GB/s,{run},{value + run / 100},268435456,Tesla V100-SXM2-16GB,"
        for system, shape, value in (("pods-of-8", "2x8x2", 55.2), ("pods-of-1", "16x1x2", 5.7))
        for run in (1, 2, 3)
    ]
    runs = str(taken(tmp_path, *rows))
    code, text = compared(runs, "nccl:pods-of-8", "nccl:pods-of-1")
    assert code == 1
    assert "fast-path-unused" in text
    assert "can't use NVLink" in text


def compared(runs: str, *names: str) -> tuple[int, str]:
    words = ["compare", *names, "--layouts", "--runs", runs]
    ran = CliRunner().invoke(assay, words, catch_exceptions=False)
    return ran.exit_code, " ".join(ran.output.split())


def test_layouts_of_one_system_are_held_against_each_other(tmp_path: Path) -> None:
    rows = [
        f"lab,training,{shape},throughput,images/s,{run},{value + run / 100},,V100-SXM2,256"
        for shape, value in (("1x1", 10), ("1x8", 80), ("8x1x1", 60), ("2x4x1", 80))
        for run in (1, 2, 3)
    ]
    code, text = compared(str(taken(tmp_path, *rows)), "nccl")
    assert code == 1
    assert "lab as 8x1x1 compared with lab as 1x8: slower" in text
    assert "lab as 2x4x1 compared with lab as 1x8: as fast" in text
    assert "1x1" not in text.replace("8x1x1", "").replace("2x4x1", "")


def test_one_system_without_like_layouts_is_told_so(tmp_path: Path) -> None:
    runs = str(taken(tmp_path, "a,train,1x8,throughput,images/s,1,100,,V100-SXM2,256"))
    with pytest.raises(InputError, match="no two of its shapes have the same number of accelerators: 1x8"):
        compared(runs, "nccl")

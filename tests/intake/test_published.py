"""Playbooks of published results: their commands run as written, and their readings say what comes out."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
import shlex
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.analyse.statistics.power import equivalence_power
from assay.cli import assay
from command_line import typed
from conftest import ROOT

PUBLISHED = ROOT / "examples" / "published"
PLAYBOOKS = sorted(path.parent.name for path in PUBLISHED.glob("*/README.md"))
UNDECIDED = 3
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARGIN = 0.02


@dataclass(frozen=True)
class Ran:
    """A command as it was run, with what it printed."""

    line: str
    code: int
    out: str


def text_of(playbook: str) -> str:
    """What a playbook says, on one line."""
    return " ".join((PUBLISHED / playbook / "README.md").read_text().split())


def commands_of(playbook: str) -> list[str]:
    blocks = _BLOCK.findall((PUBLISHED / playbook / "README.md").read_text())
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def run(ground: Path, line: str) -> Ran:
    """A command line as a person would type it at the top of the repository."""
    ran = typed(ground, line, {"COLUMNS": "100"})
    return Ran(line, ran.returncode, ran.stdout + ran.stderr)


def asked(ground: Path, line: str) -> Any:
    """The JSON of a command, whatever its verdict."""
    with contextlib.chdir(ground):
        ran = CliRunner().invoke(assay, [*shlex.split(line)[1:], "--json"])
    assert ran.exit_code in (0, UNDECIDED), ran.output
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's top as the commands see it."""
    top = tmp_path_factory.mktemp("checkout")
    shutil.copytree(PUBLISHED, top / "examples" / "published")
    return top


@pytest.fixture(scope="module")
def repositories(ground: Path, mlperf_logs: Path) -> Path:
    """MLCommons' repositories beside the examples, with those of their files that are here."""
    with (mlperf_logs / "index.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            source = mlperf_logs / row["file"].removeprefix("logs/")
            target = ground / row["repo"].rpartition("/")[2] / row["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copyfile(source, target)
    return ground


UNET3D = "training_results_v3.0/Supermicro/results/AS-4125GS-TNRT_8_H100-PCIe-80GB/unet3d"


@pytest.fixture(scope="module")
def unet3d(repositories: Path, mlperf_rounds: Path) -> Path:
    """The forty runs under Ubuntu, from the round's archive."""
    archive = str(mlperf_rounds / "training_v3.0.tar.xz")
    subprocess.run(["tar", "-xJf", archive, "-C", str(repositories), UNET3D], check=True)
    return repositories / UNET3D


def play(ground: Path, playbook: str) -> list[Ran]:
    """Every command of a playbook in its order; what it fetches with git is there already."""
    done = []
    for line in commands_of(playbook):
        if line.startswith("git "):
            fetched = line.rpartition("/")[2] if " clone " in line else line.split()[2]
            assert (ground / fetched).is_dir(), f"{line}: not fetched by this test"
            continue
        done.append(run(ground, line))
    return done


def codes(done: list[Ran]) -> list[int]:
    return [ran.code for ran in done]


def says(playbook: str, *figures: str) -> None:
    """The playbook's page holds each of these figures as written here."""
    text = text_of(playbook)
    for figure in figures:
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", text), f"{playbook} doesn't say {figure}"


def shares(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def test_every_playbook_is_in_the_list_and_ends_in_a_reading() -> None:
    listed = (PUBLISHED / "README.md").read_text()
    assert len(PLAYBOOKS) == 10
    for playbook in PLAYBOOKS:
        assert f"({playbook}/README.md)" in listed
        text = text_of(playbook)
        places = [
            text.index(part)
            for part in (
                "Source: ",
                "## Commands",
                "## What comes out",
                "## Reading",
                "**What the figures show.**",
                "**What they don't show.**",
                "**What would settle it.**",
            )
        ]
        assert places == sorted(places)


@pytest.mark.parametrize("sheet", sorted(PUBLISHED.glob("*/numbers.csv")), ids=lambda path: path.parent.name)
def test_each_sheet_has_the_documented_columns_and_positive_figures(sheet: Path) -> None:
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:8] == ["system", "workload", "shape", "metric", "unit", "run", "session", "value"]
    assert all(float(row["value"]) > 0 for row in rows)
    assert "[numbers.csv](numbers.csv)" in text_of(sheet.parent.name)


DGX1 = "dgx1-openshift-v0.6"
DGX1_RESULTS = "training_results_v0.6/NVIDIA/results/dgx1_ngc19.05_"


@pytest.fixture(scope="module")
def dgx1(repositories: Path) -> dict[str, Any]:
    """The DGX-1's scored sets by benchmark."""
    folders = f"{DGX1_RESULTS}mxnet/resnet {DGX1_RESULTS}pytorch"
    return {found["benchmark"]: found for found in asked(repositories, f"assay score {folders}")["sets"]}


def minutes(found: Any) -> list[float]:
    return [one["minutes"] for one in found["runs"]]


@pytest.mark.long
def test_the_dgx1_playbook_runs_and_compares_two_single_figures(repositories: Path) -> None:
    done = play(repositories, DGX1)
    assert codes(done) == [0, 0, 0, UNDECIDED]
    table = {line.split(",")[0]: line.split()[-6:] for line in done[1].out.splitlines()[1:]}
    for benchmark, cells in table.items():
        assert re.search(rf"\| {benchmark}, [^|]*\| {re.escape(' | '.join(cells))} \|", text_of(DGX1))


def test_the_official_scores_follow_from_the_logs(dgx1: dict[str, Any]) -> None:
    with (PUBLISHED / DGX1 / "numbers.csv").open(newline="") as file:
        sheet = {(row["system"], row["workload"]): float(row["value"]) for row in csv.DictReader(file)}
    for benchmark in ("ssd", "gnmt", "transformer"):
        assert dgx1[benchmark]["score_minutes"] == pytest.approx(sheet["dgx1-official", benchmark], abs=0.006)
    assert sheet["openshift-best", "gnmt"] == pytest.approx(
        1.0613 * sheet["dgx1-official", "gnmt"], abs=0.005
    )
    assert sheet["openshift-best", "maskrcnn"] == pytest.approx(
        (1 - 0.0229) * sheet["dgx1-official", "maskrcnn"], abs=0.005
    )


def test_a_dgx1_beats_its_own_score_by_the_papers_method(dgx1: dict[str, Any]) -> None:
    gains = {
        name: 1 - min(minutes(dgx1[name])) / dgx1[name]["score_minutes"] for name in ("ssd", "transformer")
    }
    says(DGX1, shares(gains["transformer"]))
    assert gains["ssd"] == pytest.approx(0.0032, abs=5e-5)
    (maskrcnn,) = minutes(dgx1["maskrcnn"])
    says(DGX1, f"{maskrcnn:.1f}", shares(1 - maskrcnn / 207.48))


def test_gnmt_runs_differ_by_whole_epochs_and_the_gap_is_none(dgx1: dict[str, Any]) -> None:
    by_epochs: dict[float, list[float]] = {}
    for one in dgx1["gnmt"]["runs"]:
        by_epochs.setdefault(one["epochs"], []).append(one["minutes"])
    assert {epochs: len(times) for epochs, times in by_epochs.items()} == {4: 9, 5: 1}
    says(DGX1, f"{min(by_epochs[4]):.1f} to {max(by_epochs[4]):.1f} min", f"{by_epochs[5][0]:.1f}")
    assert max(by_epochs[4]) < 21.81 < by_epochs[5][0]
    says(DGX1, shares(21.81 / max(by_epochs[4]) - 1))


def test_the_bias_of_the_best_of_n_agrees_with_a_simulation(dgx1: dict[str, Any]) -> None:
    import numpy as np

    dice = np.random.default_rng(1)
    for name, said in (("gnmt", 0.0073), ("transformer", 0.0440), ("ssd", 0.0026), ("resnet", 0.0415)):
        draws = dice.choice(minutes(dgx1[name]), size=(20_000, 5)).min(axis=1)
        assert 1 - draws.mean() / dgx1[name]["score_minutes"] == pytest.approx(said, abs=6e-4)


def test_time_per_epoch_settles_gnmt_and_transformer_with_few_runs(dgx1: dict[str, Any]) -> None:
    for name, per_epoch, in_all in (("gnmt", 3, 290), ("transformer", 3, 780)):
        runs = dgx1[name]["runs"]
        spreads = [log_spread([one[of] for one in runs]) for of in ("minutes_per_epoch", "minutes")]
        assert needed(spreads[0]) == per_epoch
        assert needed(spreads[1]) == pytest.approx(in_all, abs=5)
        says(DGX1, shares(spreads[0], 2), f"{100 * spreads[1]:.1f}", f"{in_all}")


def log_spread(values: list[float]) -> float:
    return statistics.stdev(math.log(value) for value in values)


def needed(spread: float, margin: float = _MARGIN) -> int:
    """Runs a side at which equal systems are called equivalent in 80 of 100 cases."""
    return next(n for n in range(2, 2000) if equivalence_power(n, 2 * spread**2, margin, False) >= 0.8)


OPENSHIFT = "resnet50-openshift-v3.1"


@pytest.fixture(scope="module")
def openshift(repositories: Path, unet3d: Path) -> list[Ran]:
    return play(repositories, OPENSHIFT)


def test_openshift_is_equivalent_within_two_percent_and_faster_within_half(
    openshift: list[Ran], repositories: Path
) -> None:
    assert codes(openshift) == [0] * 6
    shown = " ".join(openshift[3].out.split())
    assert "ot like for like" in shown
    assert "no verdict on the systems alone" in shown
    wide = primary(asked(repositories, "assay compare ubuntu openshift"))
    narrow = primary(asked(repositories, "assay compare ubuntu openshift --margin 0.5%"))
    assert (wide["verdict"], narrow["verdict"]) == ("equivalent", "faster")
    ratio = wide["ratio"]
    says(OPENSHIFT, f"{ratio['value']:.3f} ({ratio['low']:.4f} to {ratio['high']:.4f})")
    says(OPENSHIFT, *(f"{mean:.2f}" for mean in wide["means"]))
    assert 1 - ratio["low"] < 0.007


def primary(document: Any) -> Any:
    (found,) = (one for one in document["comparisons"] if one["primary"])
    return found


def test_the_scaling_factor_turns_the_order_round(openshift: list[Ran], repositories: Path) -> None:
    score = next(ran.line for ran in openshift if ran.line.startswith("assay score"))
    ubuntu, theirs = asked(repositories, score)["sets"]
    raw = theirs["score_minutes"] / ubuntu["score_minutes"] - 1
    published = theirs["scaled_score_minutes"] / ubuntu["scaled_score_minutes"] - 1
    says(OPENSHIFT, f"−{shares(-raw, 2)}", f"+{shares(published, 2)}", f"{theirs['scaling_factor']:.4f}")
    says(OPENSHIFT, *(f"{of['score_minutes']:.3f}" for of in (ubuntu, theirs)), "21.135")
    assert theirs["scaled_score_minutes"] == pytest.approx(21.135, abs=5e-4)
    batches = [{one["global_batch_size"] for one in of["runs"]} for of in (ubuntu, theirs)]
    assert batches == [{3200}, {3520}]
    assert {one["epochs"] for of in (ubuntu, theirs) for one in of["runs"]} == {35}
    assert {"system-contradicts", "cache-not-cleared"} <= {doubt["code"] for doubt in theirs["doubts"]}
    for of in (ubuntu, theirs):
        assert log_spread(minutes(of)) == pytest.approx(0.0005, abs=1e-4)


def test_within_one_standard_deviation_lets_a_third_more_time_pass(
    openshift: list[Ran], repositories: Path
) -> None:
    says(OPENSHIFT, f"{1 / math.sqrt(2 / 40):.1f} standard errors")
    *_, runs, mean, deviation, band, none, tenth, fifth, third, half = re.findall(
        r"[\d.]+", openshift[-1].out.splitlines()[-1].removeprefix("unet3d")
    )
    assert runs == "40"
    says(OPENSHIFT, f"{mean} min", f"{deviation} min", f"±{band} %")
    assert " | ".join((none, tenth, fifth, third, half)) in text_of(OPENSHIFT)
    (scored,) = asked(repositories, f"assay score {UNET3D}")["sets"]
    assert needed(log_spread([one["minutes_per_epoch"] for one in scored["runs"]])) == 39


def test_sessions_that_would_settle_openshift() -> None:
    assert (needed(0.005), needed(0.005, 0.005)) == (3, 23)
    says(OPENSHIFT, "3 sessions per side", "23")


def curve(ground: Path, line: str) -> dict[str, Any]:
    """Points of the one curve by shape."""
    (found,) = asked(ground, line)["curves"]
    return {point["shape"]: point for point in found["points"]}


def serial_of_one_gpu(ground: Path, name: str) -> float:
    """The share that Amdahl's law, fitted by the command, doesn't divide among the GPUs."""
    (study,) = asked(ground, f"assay scale {name}")["studies"]
    share: float = study["laws"][0]["serial"]["value"]
    return share


@pytest.mark.long
def test_four_nodes_are_no_linear_gain(ground: Path) -> None:
    assert codes(play(ground, "resnet50-a100-nodes")) == [0, 0]
    four = curve(ground, "assay scale oci")["4x8"]
    speedup, efficiency = four["speedup"]["value"], four["efficiency"]["value"]
    says("resnet50-a100-nodes", f"{speedup:.2f}", shares(efficiency))
    assert four["speedup"]["low"] is None, "one run a size has no interval"
    serial = (1 / speedup - 1 / 4) / (3 / 4)
    says("resnet50-a100-nodes", shares(serial_of_one_gpu(ground, "oci"), 2))
    says("resnet50-a100-nodes", shares(serial), f"{1 / serial:.1f} times")
    hours = [31.5 * 8 / 60, 10.67 * 32 / 60]
    says("resnet50-a100-nodes", *(f"{value:.2f}" for value in hours), shares(hours[1] / hours[0] - 1, 0))


@pytest.mark.long
def test_single_gpu_pods_are_slower_and_scale_better(ground: Path) -> None:
    name = "resnet50-single-gpu-pods"
    assert codes(play(ground, name)) == [0, 0]
    points = curve(ground, "assay scale pods")
    speed = {shape: point["value"]["value"] for shape, point in points.items()}
    assert points["2x8x2"]["efficiency"]["value"] == pytest.approx(13745 / 7096 / 2)
    says(name, shares(points["2x8x2"]["efficiency"]["value"]), shares(speed["16x1x2"] / speed["8x1x1"] / 2))
    says(name, shares(points["16x1x2"]["efficiency"]["value"]))
    costs = [speed["8x1x1"] / speed["1x8x1"], speed["16x1x2"] / speed["2x8x2"]]
    says(name, *(f"{cost:.3f}" for cost in costs), *(shares(1 - cost) for cost in costs))
    layouts = [
        found["speed"]["value"] for found in asked(ground, "assay scale pods")["studies"][0]["layouts"]
    ]
    assert layouts == [pytest.approx(cost) for cost in costs]
    steps_ms = [1e3 * 16 * 64 / speed[shape] for shape in ("2x8x2", "16x1x2")]
    says(name, *(f"{ms:.1f} ms" for ms in steps_ms), f"{steps_ms[1] - steps_ms[0]:.1f} ms")
    assert needed(0.02) == 23


@pytest.mark.long
def test_a2d2_has_a_tenth_of_its_second_node_left_over(ground: Path) -> None:
    assert codes(play(ground, "a2d2-nodes")) == [0, 0]
    two = curve(ground, "assay scale a2d2")["16x1x2"]
    speedup, efficiency = two["speedup"]["value"], two["efficiency"]["value"]
    says("a2d2-nodes", f"{speedup:.2f}", shares(efficiency), shares(1 - 1 / speedup), shares(1 / speedup))
    serial = 2 / speedup - 1
    says("a2d2-nodes", shares(serial_of_one_gpu(ground, "a2d2"), 2))
    says("a2d2-nodes", shares(serial), f"{1 / serial:.1f} times", f"{100 * serial:.0f} % more GPU-hours")


ALLREDUCE = "allreduce-single-gpu-pods"


@pytest.mark.long
def test_an_all_reduce_between_single_gpu_pods_has_lost_nvlink(ground: Path) -> None:
    assert codes(play(ground, ALLREDUCE)) == [0, UNDECIDED, UNDECIDED]
    sides = "assay compare allreduce:pods-of-8 allreduce:pods-of-1 --layouts"
    doubts = {}
    for metric, digits, printed in (("busbw", 3, 32), ("latency", 2, 52)):
        found = [
            c for c in asked(ground, f"{sides} --metric {metric}")["comparisons"] if c["metric"] == metric
        ]
        assert [c["n"] for c in found] == [[1, 1]] * printed
        listed = [c for c in found if is_listed(c["points"]["labels"])]
        assert len(listed) == len(LISTED) - (metric == "busbw")
        says(ALLREDUCE, *(f"{c['ratio']['value']:.{digits}f}" for c in listed))
        doubts[metric] = {doubt["code"]: doubt["evidence"] for doubt in listed[-1]["doubts"]}
    assert "9.7 times as much" in doubts["busbw"]["fast-path-unused"]
    assert "can't use NVLink or shared memory" in doubts["busbw"]["fast-path-unused"]
    assert f"{55.21 / 5.70:.1f} times lower" in text_of(ALLREDUCE)
    says(ALLREDUCE, f"{88034 / 9115.3:.2f} times", "5.72 against 55.22")


LISTED = (8, 2**20, 2**24, 2**27, 2**28)


def is_listed(labels: Any) -> bool:
    return labels["buffers"] == "out-of-place" and labels["payload_bytes"] in LISTED


def test_four_adapters_carry_what_eight_gpus_send(published: dict[str, Any]) -> None:
    adapter = published["ib_write_bw"]
    rate = adapter["msg_rate_Mpps"] * 1e6 * adapter["bytes"]
    assert rate == pytest.approx(adapter["bw_average_MB_per_s"] * 2**20, rel=1e-5), "its MB are MiB"
    says(ALLREDUCE, f"{rate / 1e9:.2f} GB/s", f"{4 * rate / 1e9:.1f} GB/s", f"{8 * 5.70:.1f} GB/s")


def test_the_all_reduce_tables_are_whole_and_agree_with_themselves(published: dict[str, Any]) -> None:
    with (PUBLISHED / ALLREDUCE / "numbers.csv").open(newline="") as file:
        rows = {
            (row["shape"], row["buffers"], int(row["payload_bytes"]), row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
        }
    for shape, ranks in (("1x8x1", 8), ("2x8x2", 16), ("16x1x2", 16)):
        for buffers in ("out-of-place", "in-place"):
            for payload in (8 * 2**k for k in range(26)):
                algbw = payload / rows[shape, buffers, payload, "latency"] / 1e3
                busbw = rows.get((shape, buffers, payload, "busbw"))
                expected = algbw * 2 * (ranks - 1) / ranks
                assert busbw == pytest.approx(expected, abs=0.015, rel=1e-3) if busbw else expected < 0.105
    tables = published["nccl_all_reduce_float_sum_out_of_place"]
    for name, shape in (("1 pod x 8", "1x8x1"), ("2 pods x 8", "2x8x2"), ("16 pods x 1", "16x1x2")):
        (table,) = (rows_of for title, rows_of in tables.items() if title.startswith(name))
        for payload, latency, _, busbw in table:
            assert rows[shape, "out-of-place", payload, "latency"] == latency
            assert rows.get((shape, "out-of-place", payload, "busbw"), 0.0) == busbw


def test_the_table_of_v06_is_whole_but_for_the_cell_that_cannot_be_read(published: dict[str, Any]) -> None:
    table = published["mlperf_v0_6_closed_minutes"]
    with (PUBLISHED / "mlperf-v0.6" / "numbers.csv").open(newline="") as file:
        sheet = {(row["run"], row["workload"]): row for row in csv.DictReader(file)}
    cells = {
        (row[0], name): (row[4], minutes)
        for row in table["rows"]
        for name, minutes in zip(table["columns"][6:], row[6:], strict=True)
        if minutes is not None
    }
    assert set(cells) - set(sheet) == {("0.6-24", "ssd")}
    assert "0.6-24 ssd" in table["doubtful_cells"]
    for cell, row in sheet.items():
        accelerators, minutes = cells[cell]
        assert (math.prod(map(int, row["shape"].split("x"))), float(row["value"])) == (accelerators, minutes)


@pytest.mark.long
def test_v06_scales_and_costs_as_the_page_says(ground: Path) -> None:
    name = "mlperf-v0.6"
    assert codes(play(ground, name)) == [0, 0]
    document = asked(ground, f"assay scale {name}")
    curves = {(curve["system"], curve["benchmark"]): at for at, curve in enumerate(document["curves"])}
    spent = document["studies"][curves["DGX-2H", "maskrcnn"]]["spending"][0]["accelerator_hours"]
    assert (spent["value"], spent["unit"]) == (pytest.approx(95.20 * 16 / 60), "h")
    says(
        name, f"{95.20 * 16 / 60:.2f} Hrs", f"{18.47 * 192 / 60:.2f}", f"{18.47 * 192 / 95.20 / 16:.1f} times"
    )
    for system, benchmark, digits in (
        ("TPUv3", "resnet", 1),
        ("TPUv3", "ssd", 1),
        ("DGX-1", "resnet", 1),
        ("DGX-1", "minigo", 2),
    ):
        last = document["curves"][curves[system, benchmark]]["points"][-1]
        says(name, f"{last['speedup']['value']:.{digits}f}", shares(last["efficiency"]["value"]))


@pytest.mark.long
def test_a_pod_with_a_gpu_is_not_judged_by_one_run(ground: Path) -> None:
    name = "tf-cnn-pods"
    assert codes(play(ground, name)) == [0, 0, UNDECIDED]
    (found,) = (
        c for c in asked(ground, f"assay compare {name}:cpu {name}:gpu")["comparisons"] if c["primary"]
    )
    assert found["means"] == [2.24, 325.03]
    assert found["verdict"] == "undecided"
    says(name, f"{found['ratio']['value']:.0f}", f"{7096 / 8:.0f} images/s")


HPE = "ssd-hpe-nodes"
HPE_SYSTEM = "HPE-ProLiant-XL675d-Gen10-Plus_A100-SXM-80GB"


@pytest.fixture(scope="module")
def hpe(repositories: Path) -> list[Ran]:
    return play(repositories, HPE)


@pytest.mark.long
def test_scores_of_hpe_scale_as_no_machine_does(hpe: list[Ran], repositories: Path) -> None:
    assert codes(hpe) == [0, 0, 0, 0]
    folders = [
        f"training_results_v2.1/HPE/results/{HPE_SYSTEM}{nodes}_pytorch/ssd" for nodes in ("", "_2N", "_4N")
    ]
    sets = asked(repositories, f"assay score {' '.join(folders)}")["sets"]
    scores = [found["score_minutes"] for found in sets]
    says(HPE, *(f"{score:.2f}" for score in scores))
    by_score = [scores[0] / scores[k] / 2**k for k in (1, 2)]
    assert by_score[0] < by_score[1], "32 GPUs seem better used than 16"
    says(HPE, *(shares(share, 0) for share in by_score))
    epochs = [[one["epochs"] for one in found["runs"]] for found in sets]
    assert epochs == [[4, 5, 4, 4, 4], [5] * 5, [4] * 5]
    assert [found["runs"][0]["global_batch_size"] for found in sets] == [256, 512, 256]
    for spread, found in zip(("0.1", "0.05", "1.5"), sets, strict=True):
        per_epoch = [one["minutes_per_epoch"] for one in found["runs"]]
        assert f"{100 * log_spread(per_epoch):.{len(spread) - 2}f}" == spread
        says(HPE, spread)
    says(HPE, str(needed(log_spread([one["minutes_per_epoch"] for one in sets[2]["runs"]]))))


@pytest.mark.long
def test_time_per_epoch_of_hpe_scales_as_one_expects(hpe: list[Ran], repositories: Path) -> None:
    points = curve(repositories, "assay scale hpe --metric time_per_epoch")
    for shape in ("2x8", "4x8"):
        share = points[shape]["efficiency"]
        says(HPE, f"{shares(share['value'], 0)} ({100 * share['low']:.1f} to {100 * share['high']:.1f})")
    in_all = curve(repositories, "assay scale hpe --metric time_to_train")
    says(HPE, *(shares(in_all[shape]["efficiency"]["value"], 0) for shape in ("2x8", "4x8")))
    falls, rises = ([of[shape]["efficiency"]["value"] for shape in ("2x8", "4x8")] for of in (points, in_all))
    assert falls[0] > falls[1]
    assert rises[0] < rises[1]
    (study,) = asked(repositories, "assay scale hpe --metric time_per_epoch")["studies"]
    assert (study["kind"], study["left_out"], study["doubts"]) == ("mixed", ["2x8"], [])
    (rated,) = asked(repositories, "assay scale hpe --metric throughput")["studies"]
    says(HPE, "{:.0f}, {:.0f} and {:.0f} samples/s per GPU".format(*(r["value"] for r in rated["per_rank"])))
    (trained,) = asked(repositories, "assay scale hpe --metric time_to_train")["studies"]
    step = next(doubt for doubt in trained["doubts"] if doubt["code"] == "superlinear")
    says(HPE, f"{trained['steps'][1]['gain']['value']:.2f} times as fast", "lost at least 9.9 %")
    assert "2x8 lost at least 9.9 %" in step["evidence"]


SINGLESTREAM = "inference-singlestream"
LINES = ("resnet50-gpu", "resnet50-cpu", "mobilenet-cpu")


@pytest.mark.long
def test_one_query_after_the_other_is_sixteen_times_as_fast_on_the_gpu(ground: Path) -> None:
    done = play(ground, SINGLESTREAM)
    assert codes(done) == [0, 0, 0, UNDECIDED, 0]
    assert "20 trials: 2 points on 2 systems" in done[-1].out
    logs = " ".join(f"examples/published/{SINGLESTREAM}/{name}.log" for name in LINES)
    runs = {run["run"].removesuffix(".log"): run for run in asked(ground, f"assay score {logs}")["inference"]}
    assert {doubt["code"] for run in runs.values() for doubt in run["doubts"]} == {"no-validity"}
    of = {
        name: {(f["metric"], *f["labels"].values()): f["value"] for f in run["figures"]}
        for name, run in runs.items()
    }
    gpu, cpu, mobilenet = (of[name] for name in LINES)
    p50, p90, p99 = (("latency", percentile) for percentile in (50.0, 90.0, 99.0))
    qps, mean = ("qps",), ("mean_latency",)
    says(SINGLESTREAM, f"{cpu[mean] / gpu[mean]:.1f} times", f"{cpu[p90] / gpu[p90]:.1f} times")
    says(SINGLESTREAM, f"{gpu[qps] / cpu[qps]:.2f} | {gpu[mean] / cpu[mean]:.3f} | {gpu[p90] / cpu[p90]:.3f}")
    says(SINGLESTREAM, *(f"{one[qps] * one[mean]:.3f}" for one in (gpu, cpu, mobilenet)))
    says(SINGLESTREAM, f"{gpu[p99] / gpu[p50]:.2f} times", f"{cpu[p99] / cpu[p50]:.2f} times")
    says(SINGLESTREAM, f"{8.18 / 1.14:.1f} times", f"{cpu[mean] / mobilenet[mean]:.1f} times")
    says(SINGLESTREAM, f"{683 / mobilenet[qps]:.1f}")


def test_seven_of_eight_images_say_little_of_an_accuracy() -> None:
    from scipy.stats import binomtest

    low, high = binomtest(7, 8).proportion_ci()
    says(SINGLESTREAM, f"{100 * low:.0f} to {100 * high:.1f} %")

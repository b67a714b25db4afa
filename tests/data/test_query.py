"""Frames chosen by a condition, at random, balanced, in parts; classes over them; SQL that harms nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import api
from assay.data.catalog import Rows, writing
from assay.data.choosing import split
from assay.data.classes import Classes
from assay.data.filters import condition
from assay.errors import InputError
from assay.frame_manifest import ChosenFrame, made, read_manifest, write_manifest
from assay_payloads.datasets.chunks import ManifestChunks
from assay_payloads.datasets.manifest import ManifestError
from command_line import assay as typed

NAMES = ("Car", "Bicycle", "Pedestrian", "RD normal street")
CLASSES = Classes(NAMES, ("car", "bicycle", "pedestrian", "rd_normal_street"), {})
PIXELS, FRAMES = 10_000, 400
CAMERAS = ("cam_front_center", "cam_front_left")
COLUMNS = {
    **dict.fromkeys(("label", "scene", "camera"), "text"),
    **dict.fromkeys(("width", "pixels"), "number"),
    **dict.fromkeys(("unknown", *CLASSES.columns), "pixels"),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frames whose counts are known: frame i has i cars' pixels, a bicycle in every eighth, 3 scenes."""
    path = tmp_path_factory.mktemp("catalog") / "c.duckdb"
    rows = Rows()
    for i in range(FRAMES):
        scene, camera = f"scene{i % 3}", CAMERAS[i % 2]
        label = f"{scene}/label/{camera}/{i:05}.png"
        counts = [i, 50 * (i % 8 == 0), 4900 + i, PIXELS - (i + 50 * (i % 8 == 0) + 4900 + i) - 7]
        own = [label, label.replace("label", "camera"), scene, camera, None, 100, 100, PIXELS, 10, 100, 1]
        rows.frames.append([*own, 7, *counts])
    with writing(path, Path("/data"), "a2d2", CLASSES) as made_catalog:
        made_catalog.add(rows)
    return path


def numbers(catalog: Path, where: str, **options: object) -> list[int]:
    found = api.query_data(where, catalog=catalog, **options)  # type: ignore[arg-type]
    return sorted(int(Path(frame.label).stem) for frame in found.frames)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("car < 3", {0, 1, 2}),
        ("car > 3.95%", {396, 397, 398, 399}),
        ("car >= 398 and camera = cam_front_left", {399}),
        ("car = 10..12", {10, 11, 12}),
        ("car = 0.1%..0.12%", {10, 11, 12}),
        ("bicycle > 0 and car < 20", {0, 8, 16}),
        ("(car = 1 or car = 2) and not scene = scene1", {2}),
        ("scene in (scene1, scene2) and car < 3", {1, 2}),
        ("car in (5, 7)", {5, 7}),
        ("label = 'scene0/label/cam_front_left/00003.png'", {3}),
        ("NOT car >= 1", {0}),
        ("Car==4", {4}),
        ("unknown > 7", set()),
    ],
)
def test_a_condition_chooses_what_it_says(catalog: Path, where: str, expected: set[int]) -> None:
    assert set(numbers(catalog, where)) == expected


def test_a_draw_in_the_catalog_is_the_draw_of_all_its_frames(catalog: Path) -> None:
    """Drawn where they lie, since bringing millions here for a thousand takes minutes and gigabytes."""
    every = api.query_data("car > 20", catalog=catalog).frames
    places = sorted(random.Random(7).sample(range(len(every)), 30))
    drawn = api.query_data("car > 20", catalog=catalog, limit=30, seed=7).frames
    assert drawn == tuple(every[place] for place in places)


def test_the_redbooks_three_queries(catalog: Path) -> None:
    _, shares = api.class_shares(catalog=catalog)
    share = {one.column: one.share for one in shares}
    assert sum(share.values()) == pytest.approx(1)
    assert share["car"] == pytest.approx(sum(range(FRAMES)) / FRAMES / PIXELS)
    found = numbers(catalog, "bicycle > 0 and camera = cam_front_center")
    assert found == list(range(0, FRAMES, 8))
    between = "pedestrian = 5000..6000 and car = 100..200 and rd_normal_street > 40%"
    assert numbers(catalog, between) == list(range(100, 201))


@pytest.mark.parametrize(
    ("where", "at", "said"),
    [
        ("cra > 1", 1, "did you mean car or"),
        ("car >", 6, "expected a value"),
        ("car", 4, "expected = != < <= > >= or `in` after car"),
        ("car > 1 bicycle > 0", 9, "expected `and`, `or`, or the end"),
        ("car > much", 7, "car is a number"),
        ("(car > 1", 9, "expected )"),
        ("camera > cam", 10, "camera is text"),
        ("width > 5%", 9, "no number of pixels of a class"),
        ("camera = 'cam", 10, "quotation mark has no partner"),
        ("car in 3", 8, "expected ( after `in`"),
        ("car = 100..50", 7, "expected the lower bound first"),
        ("car = 3%..2.5%", 7, "expected the lower bound first"),
        ("", 0, ""),
    ],
)
def test_a_wrong_condition_is_shown_with_its_place(catalog: Path, where: str, at: int, said: str) -> None:
    if not where:
        assert len(numbers(catalog, where)) == FRAMES
        return
    with pytest.raises(InputError) as error:
        numbers(catalog, where)
    assert said in str(error.value)
    assert f"character {at}" in str(error.value)


@given(st.text(max_size=60))
def test_no_text_is_more_than_a_condition(text: str) -> None:
    try:
        found = condition(text, COLUMNS)
    except InputError:
        return
    for name in COLUMNS:
        found = type(found)(found.sql.replace(f'"{name}"', ""), found.values)
    assert set(found.sql) <= set("()<>=?*/ .10ANDORNTpixels"), "only our own words are in the SQL"


COMPARISONS = (
    "car > 1",
    "car = 3%..4%",
    "scene = 'a'",
    "scene in (a, 'b', c)",
    "width != 5",
    "car in (1, 2)",
)
CONDITIONS = st.recursive(
    st.sampled_from(COMPARISONS),
    lambda parts: st.one_of(
        st.builds("not {}".format, parts),
        st.builds("({})".format, parts),
        st.builds("{} {} {}".format, parts, st.sampled_from(["and", "or"]), parts),
    ),
)


@given(CONDITIONS)
def test_what_is_accepted_is_valid_sql(words: str) -> None:
    found = condition(words, COLUMNS)
    with duckdb.connect(":memory:") as connection:
        kinds = {"label": "VARCHAR", "scene": "VARCHAR", "camera": "VARCHAR"}
        columns = ", ".join(f'"{name}" {kinds.get(name, "INTEGER")}' for name in COLUMNS)
        connection.execute(f"CREATE TABLE frames ({columns})")
        connection.execute(f"SELECT * FROM frames WHERE {found.sql}", list(found.values))


@pytest.mark.long
def test_a_random_subset_is_the_same_for_the_same_seed_and_even_over_all(catalog: Path) -> None:
    first = numbers(catalog, "", limit=40, seed=1)
    assert first == numbers(catalog, "", limit=40, seed=1)
    assert first != numbers(catalog, "", limit=40, seed=2)
    drawn = Counter(one for seed in range(100) for one in numbers(catalog, "", limit=40, seed=seed))
    assert len(drawn) == FRAMES
    assert max(drawn.values()) <= 25  # 10 expected; more has a probability of 1e-5 per frame
    with pytest.raises(InputError, match="3 frames satisfy the condition; expected at least the limit, 4"):
        numbers(catalog, "car < 3", limit=4)


def test_balanced_is_as_many_without_as_with(catalog: Path) -> None:
    found = numbers(catalog, "", balance="bicycle", seed=3)
    with_it = [one for one in found if one % 8 == 0]
    assert (len(found), len(with_it)) == (2 * FRAMES // 8, FRAMES // 8)
    some = numbers(catalog, "", balance="bicycle", seed=3, limit=21)
    assert (len(some), len([one for one in some if one % 8 == 0])) == (21, 11)
    with pytest.raises(InputError, match="no class or column 'bike'"):
        numbers(catalog, "", balance="bike")


@pytest.mark.parametrize("limit", [40, 41])
def test_a_balanced_draw_and_its_parts_are_balanced(catalog: Path, limit: int) -> None:
    found = api.query_data(catalog=catalog, balance="bicycle", limit=limit, seed=1)
    parts = api.split_data(found, (70, 30), seed=1, catalog=catalog, balance="bicycle")
    for part, size in ((found, limit), *zip(parts, (0.7 * limit, 0.3 * limit), strict=True)):
        with_it = sum(int(Path(frame.label).stem) % 8 == 0 for frame in part.frames)
        assert abs(len(part.frames) - size) <= 2
        assert abs(with_it - len(part.frames) / 2) <= 1
    with pytest.raises(
        InputError, match="100 frames satisfy the condition; expected at least the limit, 101"
    ):
        api.query_data(catalog=catalog, balance="bicycle", limit=101)


def test_parts_have_their_share_of_every_scene_and_no_frame_twice(catalog: Path) -> None:
    whole = api.query_data(catalog=catalog)
    parts = api.split_data(whole, (80, 10, 10), seed=4)
    labels = [frame.label for part in parts for frame in part.frames]
    assert sorted(labels) == [frame.label for frame in whole.frames]
    for part, share in zip(parts, (0.8, 0.1, 0.1), strict=True):
        scenes = Counter(frame.label.split("/")[0] for frame in part.frames)
        assert all(abs(count - share * FRAMES / 3) <= 1 for count in scenes.values())
    again = api.split_data(whole, (80, 10, 10), seed=4)
    assert [part.digest for part in parts] == [part.digest for part in again]
    with pytest.raises(InputError, match="percentages above 0"):
        api.split_data(whole, (80, 0), seed=1)


@pytest.mark.parametrize("percents", [(80, 10, 10), (50, 50), (60, 20, 20), (90, 5, 5), (34, 33, 33)])
@pytest.mark.parametrize("each", [1, 2, 3, 5, 9])
def test_parts_of_many_small_scenes_have_their_share_of_the_whole(
    each: int, percents: tuple[int, ...]
) -> None:
    frames = [ChosenFrame(f"s{n % 20:02}/{n}", "", 0, 0) for n in range(20 * each)]
    manifest = made("/d", "a2d2", "all", frames)
    for seed in range(3):
        parts = api.split_data(manifest, percents, seed=seed)
        assert sorted(frame.label for part in parts for frame in part.frames) == sorted(
            frame.label for frame in frames
        )
        for part, percent in zip(parts, percents, strict=True):
            assert abs(len(part.frames) - len(frames) * percent / 100) <= 1
            counts = Counter(frame.label.partition("/")[0] for frame in part.frames)
            assert all(abs(counts[f"s{n:02}"] - each * percent / 100) <= 1 for n in range(20))


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
    st.lists(st.integers(1, 100), min_size=1, max_size=5),
    st.integers(0, 5),
)
def test_no_part_is_far_from_its_share_and_no_scene_more_than_one_frame(
    sizes: list[int], percents: list[int], seed: int
) -> None:
    frames = [ChosenFrame(f"{scene}/{n}", "", 0, 0) for scene, size in enumerate(sizes) for n in range(size)]
    scenes = {frame.label: frame.label.partition("/")[0] for frame in frames}
    parts = split(frames, scenes, percents, seed)
    assert sorted(f.label for part in parts for f in part) == sorted(f.label for f in frames)
    for part, percent in zip(parts, percents, strict=True):
        share = percent / sum(percents)
        assert abs(len(part) - share * len(frames)) < 2
        counts = Counter(scenes[frame.label] for frame in part)
        assert all(abs(counts[str(scene)] - share * size) < 1.000001 for scene, size in enumerate(sizes))


def test_a_part_without_frames_is_refused_and_frames_without_scenes_are_split_together(
    tmp_path: Path,
) -> None:
    manifest = made("/d", "a2d2", "all", [ChosenFrame(f"s/{n}", "", 0, 0) for n in range(3)])
    with pytest.raises(InputError, match="part 2 of 99/1 would have none of the 3 frames"):
        api.split_data(manifest, (99, 1))
    rows = Rows()
    for layout, label in (("coco", "annotations/instances_{}.json#1"), ("webdataset", "{}/0.tar#a.png")):
        rows.frames = [
            [label.format(n), "i", str(n), "", None, 10, 10, 100, 1, 1, 1, 0, 0, 0, 0, 100] for n in range(10)
        ]
        with writing(tmp_path / f"{layout}.duckdb", Path("/data"), layout, CLASSES) as opened:
            opened.add(rows)
        typed_query = ("data", "query", "--catalog", f"{layout}.duckdb", "--split", "80/20")
        said = typed(tmp_path, *typed_query, "--manifest", "m.jsonl").stdout
        assert "8 frames (80.0%)" in said
        assert "states no scenes: split by frame" in said
    assert "; split by frame into 80/20" in read_manifest(tmp_path / "m-1.jsonl").query


def test_pairs_of_classes_and_scenes_that_differ(catalog: Path, tmp_path: Path) -> None:
    assert api.classes_together(["car", "bicycle"], catalog=catalog) == [[399, 49], [49, 50]]
    assert max(one.distance for one in api.scene_drift(catalog=catalog)) < 0.01
    other = tmp_path / "d.duckdb"
    rows = Rows()
    for scene, counts in (("a", [PIXELS, 0, 0, 0]), ("b", [0, PIXELS, 0, 0]), ("c", [PIXELS, 0, 0, 0])):
        label = f"{scene}/label/x/1.png"
        rows.frames.append([label, label, scene, "x", None, 100, 100, PIXELS, 1, 1, 1, 0, *counts])
    with writing(other, Path("/data"), "a2d2", CLASSES) as opened:
        opened.add(rows)
    first, *rest = api.scene_drift(catalog=other)
    p, q = np.array([0, 1.0]), np.array([2 / 3, 1 / 3])
    mean = (p + q) / 2
    bits = 0.5 * (1 * np.log2(1 / mean[1])) + 0.5 * sum(q * np.log2(q / mean))
    assert (first.scene, first.class_) == ("b", "Bicycle")
    assert first.distance == pytest.approx(np.sqrt(bits))
    assert {one.scene for one in rest} == {"a", "c"}


def test_scenes_of_one_distribution_are_as_far_as_chance_puts_them(tmp_path: Path) -> None:
    path, chance, rows = tmp_path / "c.duckdb", np.random.default_rng(5), Rows()
    for i in range(1200):
        scene = f"s{i % 40}"  # 30 frames each, of one distribution
        counts = chance.multinomial(PIXELS, chance.dirichlet((1, 1, 1, 1)))
        label = f"{scene}/label/x/{i}.png"
        own = [label, label, scene, "x", None, 100, 100, PIXELS, 1, 1, 1, 0]
        rows.frames.append([*own, *(int(count) for count in counts)])
    for i in range(30):
        label = f"other/label/x/{i}.png"
        rows.frames.append([label, label, "other", "x", None, 100, 100, PIXELS, 1, 1, 1, 0, PIXELS, 0, 0, 0])
    with writing(path, Path("/data"), "a2d2", CLASSES) as opened:
        opened.add(rows)
    first, *alike = api.scene_drift(catalog=path)
    assert first.scene == "other"
    assert first.distance > 3 * first.at_random
    assert sum(one.distance > one.at_random for one in alike) <= 8  # 2 of 40 expected
    assert min(one.at_random for one in alike) < 2 * max(one.distance for one in alike)
    assert [one.frames for one in api.scene_drift("scene in (s1, s2)", catalog=path)] == [30, 30]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY frames TO 'out.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "DELETE FROM frames",
        "DROP TABLE frames",
        "SET lock_configuration = false",
        "SET enable_external_access = true",
        "SELEKT 1",
        "",
    ],
)
def test_sql_reads_the_catalog_and_nothing_else(catalog: Path, text: str) -> None:
    before = catalog.read_bytes()
    with pytest.raises(InputError, match="the query"):
        api.query_data_sql(text, catalog=catalog)
    assert catalog.read_bytes() == before


def test_sql_ends_in_time(catalog: Path) -> None:
    slow = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5"
    with pytest.raises(InputError, match=r"longer than 0\.2 s"):
        api.query_data_sql(slow, catalog=catalog, timeout_s=0.2)
    with pytest.raises(InputError, match="more than 1,000,000 rows"):
        api.query_data_sql("SELECT * FROM range(1001000)", catalog=catalog)
    with pytest.raises(InputError, match="more than 67,108,864 characters"):
        api.query_data_sql("SELECT repeat('x', 68000000)", catalog=catalog)


def test_a_manifest_is_what_it_was_or_an_error(tmp_path: Path) -> None:
    frames = [ChosenFrame(f"s/label/c/{i}.png", f"s/camera/c/{i}.png", i, 2 * i) for i in range(5)]
    path = tmp_path / "m.jsonl"
    write_manifest(path, made("/data", "a2d2", "all", frames))
    whole = path.read_text()
    assert read_manifest(path).frames == tuple(frames)
    assert read_manifest(path).bytes == 3 * sum(range(5))
    lines = whole.splitlines()
    for damaged, said in (
        ("\n".join(lines[:-1]), "states 5 frames .* but has 4"),
        (whole.replace("s/label/c/3.png", "s/label/c/4.png"), "was cut or changed"),
        (whole.replace("s/label/c/3.png", "../label/c/3.png"), "outside the data set"),
        (whole.replace("s/label/c/3.png", "/etc/passwd"), "outside the data set"),
        (whole.replace('"manifest": 1', '"manifest": 9'), "of version 9"),
        (whole.replace('"root"', '"rot"'), "lacks root"),
        (lines[0] + "\n[1, 2]\n", "line 2.*is not a frame"),
        ("hello", "is not a manifest"),
        ("", "is not a manifest"),
    ):
        path.write_text(damaged)
        with pytest.raises(InputError, match=said):
            read_manifest(path)
    for more, said in (
        ([frames[1]], r"line 7.*'s/label/c/1\.png' is in line 3, too"),
        ([ChosenFrame("a.png", "b.png", 3, -1)], "line 7.*has -1 bytes"),
    ):
        write_manifest(path, made("/data", "a2d2", "all", [*frames, *more]))
        with pytest.raises(InputError, match=said):
            read_manifest(path)
        with pytest.raises(ManifestError, match=said):
            ManifestChunks(path, 2)


def test_typed(catalog: Path, tmp_path: Path) -> None:
    options = ("--catalog", str(catalog))
    done = typed(tmp_path, "data", "query", "car < 3", *options, "--manifest", "m.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 frames, 330 B, digest ")
    assert len(read_manifest(tmp_path / "m.jsonl").frames) == 3
    done = typed(tmp_path, "data", "query", *options, "--split", "80/20", "--manifest", "p.jsonl", "--json")
    assert [len(part["frames"]) for part in json.loads(done.stdout)] == [320, 80]
    assert len(read_manifest(tmp_path / "p-2.jsonl").frames) == 80
    done = typed(tmp_path, "data", "query", "unknown > 7", *options)
    assert done.returncode == 1
    done = typed(tmp_path, "data", "query", "--sql", "SELECT count(*) AS n FROM frames", *options, "--json")
    assert json.loads(done.stdout) == {"columns": ["n"], "rows": [[FRAMES]]}
    done = typed(tmp_path, "data", "classes", *options)
    assert "RD normal street" in done.stdout
    assert typed(tmp_path, "data", "classes", "--together", "car,bike", *options).returncode == 4
    assert typed(tmp_path, "data", "classes", "--scenes", "car > 3", *options).returncode == 0
    assert typed(tmp_path, "data", "query", "car > 1", "--sql", "SELECT 1", *options).returncode == 2


def test_no_answer_is_cut_in_a_pipe_and_no_control_character_is_printed(
    catalog: Path, tmp_path: Path
) -> None:
    columns = ", ".join(f"'{'long ' * 20}{n}' AS c{n}" for n in range(3))
    asked = f"SELECT {columns}, 12345 AS n, chr(27) || '[31mred' || chr(10) || 'x' AS esc"
    said = typed(tmp_path, "data", "query", "--catalog", str(catalog), "--sql", asked).stdout
    assert len(said.splitlines()) == 2
    assert all(f"{'long ' * 20}{n}" in said for n in range(3))
    assert "12345" in said
    assert r"\x1b[31mred\nx" in said
    assert "\x1b" not in said
    shown = typed(tmp_path, "data", "classes", "--catalog", str(catalog)).stdout
    assert "rd_normal_street" in shown

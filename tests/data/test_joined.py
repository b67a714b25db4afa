"""A site's tags and the vehicle's bus as columns of frames: what matches, what does not, what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import made_a2d2
from assay import api
from assay.data.bus import join_bus
from assay.data.catalog import Rows, writing
from assay.data.classes import of_names
from assay.data.tags import join_tags
from assay.errors import InputError
from assay_payloads.datasets.places import place
from command_line import assay as typed
from conftest import long_rows_but

FRAMES, BEGIN, STEP = 10, 1_533_646_228_000_000, 500_000  # two frames a second from 2018-08-07 12:50:28 UTC
CLASSES = of_names(("Car", "Sky"))


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Frames 0 to 9 of two scenes and two cameras, half a second apart; the last has no time."""
    path = tmp_path / "c.duckdb"
    rows = Rows()
    for n in range(FRAMES):
        taken = BEGIN + n * STEP if n < FRAMES - 1 else None
        names = [f"s{n % 2}/{n}.png", f"s{n % 2}/{n}.jpg", f"s{n % 2}", "front" if n < 5 else "rear", taken]
        rows.frames.append([*names, 10, 10, 100, 1, 1, 1, 0, n, 100 - n])
    with writing(path, "/data", "a2d2", CLASSES) as made:
        made.add(rows)
    return path


def tagged(catalog: Path, text: str) -> object:
    file = catalog.parent / "tags.csv"
    file.write_text(text)
    with writing(catalog, "/data", "a2d2", CLASSES) as opened:
        return join_tags(opened, file)


def asked(catalog: Path, sql: str) -> list[tuple[object, ...]]:
    return list(api.query_data_sql(sql, catalog=catalog).rows)


def test_tags_by_frame_are_columns_that_conditions_use(catalog: Path) -> None:
    done = tagged(catalog, "label,Weather,lux\ns0/0.png,rain,1.5\ns1/1.png,,700\nnone.png,sun,3\n")
    assert (done.columns, done.rows, done.unmatched_rows) == (("weather", "lux"), 3, 1)  # type: ignore[attr-defined]
    assert (done.first_unmatched, done.frames, done.unmatched_frames) == ((4,), 2, 8)  # type: ignore[attr-defined]
    assert asked(catalog, "SELECT label, weather, lux FROM frames WHERE lux > 0 ORDER BY label") == [
        ("s0/0.png", "rain", 1.5),
        ("s1/1.png", None, 700.0),
    ]
    assert [one.label for one in api.query_data("weather = rain", catalog=catalog).frames] == ["s0/0.png"]
    assert [one.label for one in api.query_data("lux > 2 and car = 1", catalog=catalog).frames] == [
        "s1/1.png"
    ]
    with pytest.raises(InputError, match="lux is no number of pixels of a class"):
        api.query_data("lux > 2%", catalog=catalog)


def test_tags_replace_those_before_and_new_frames_have_none(catalog: Path) -> None:
    tagged(catalog, "label,weather\ns0/0.png,rain\n")
    tagged(catalog, "image,road\ns1/1.jpg,motorway\n")
    assert asked(catalog, "SELECT name, kind, source FROM extra") == [("road", "text", "tags")]
    rows = Rows()
    rows.frames.append(["s0/x.png", "s0/x.jpg", "s0", "front", BEGIN, 10, 10, 100, 1, 1, 1, 0, 50, 50])
    with writing(catalog, "/data", "a2d2", CLASSES) as opened:
        opened.add(rows)
    assert asked(catalog, "SELECT count(*), count(road) FROM frames") == [(FRAMES + 1, 1)]


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    long_rows_but(3, [
        ("from,to,w", [f"{BEGIN},{BEGIN + STEP},a"], {0: "a"}),  # `to` is excluded
        ("from,to,w", ["2018-08-07T12:50:28Z,2018-08-07T14:50:29+02:00,a"], {0: "a", 1: "a"}),
        ("scene,w", ["s1,a"], {1: "a", 3: "a", 5: "a", 7: "a", 9: "a"}),
        ("scene,camera,w", ["s0,front,a", "s0,rear,b"], {0: "a", 2: "a", 4: "a", 6: "b", 8: "b"}),
        (
            "camera,from,to,w",
            [f"rear,0,{2**60},a", f"front,{BEGIN + 1},{BEGIN + STEP + 1},b"],
            {1: "b", 5: "a", 6: "a", 7: "a", 8: "a"},
        ),
    ]),
)  # fmt: skip
def test_tags_by_time_and_place(
    catalog: Path, header: str, rows: list[str], expected: dict[int, str]
) -> None:
    tagged(catalog, "\n".join([header, *rows]))
    found = asked(catalog, "SELECT car, w FROM frames WHERE w IS NOT NULL ORDER BY car")
    assert dict(found) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    long_rows_but(8, [
        ("", "is empty"),
        ("weather\nrain\n", r":1: has the columns weather; expected label or image"),
        ("label\nx\n", r":1: has no tags"),
        ("from,w\n1,x\n", "both from and to"),
        ("label,w,w\na,b,c\n", r":1: has two columns 'w'"),
        ("label,car\na,1\n", r":1: the tag 'car' has the name of a column"),
        ("label,W,w\na,1,2\n", r":1: two tags become the column w"),
        ("label,w\na,b,c\n", r":2: has 3 values; expected 2"),
        ('label,w\na,"b\n', r"is not CSV"),
        ("label,w\na,1\nb,2\na,3\n", r":4: is of the same frames as the row in line 2"),
        ("from,to,w\n10,20,a\n30,40,b\n15,35,c\n", r":4: overlaps .* line 2\n.*:3: overlaps .* line 4"),
        ("from,to,w\n20,10,a\n", r":2: ends before it begins"),
        ("from,to,w\n2018-08-07T12:50:28,2,a\n", r":2: from is '2018.*a time with a zone"),
        ("from,to,w\n1,99999999999999999999,a\n", r":2: to is .*too large"),
        ("scene,w\n,a\n", r":2: scene is empty"),
        ("from,to,w\n2018-08-08T12:50:28Z,2018-08-08T13:50:28Z,a\n",
         r"no frame was taken in its times, 2018-08-08 12:50:28 UTC to .* 2018-08-07 .*, 86,396 s apart"),
    ]),
)  # fmt: skip
def test_what_is_wrong_with_tags_is_said_with_its_line(catalog: Path, text: str, said: str) -> None:
    before = asked(catalog, "FROM frames")
    with pytest.raises(InputError, match=said):
        tagged(catalog, text)
    assert asked(catalog, "FROM frames") == before


def test_an_interval_inside_a_longer_one_before_it_is_found(catalog: Path) -> None:
    with pytest.raises(InputError, match=r":4: overlaps the interval in line 2"):
        tagged(catalog, "from,to,w\n10,100,a\n20,30,b\n40,50,c\n")


def recorded(folder: Path, scene: str, value: object) -> Path:
    file = folder / scene / "bus" / f"{scene}_bus_signals.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def joined(catalog: Path, folder: Path, within_s: float = 0.1, *, changed: bool = True) -> object:
    there = place(str(folder))
    with writing(catalog, "/data", "a2d2", CLASSES) as opened:
        return join_bus(opened, there, dict(there.files()), within_s, changed=changed)


def test_a_frame_gets_the_value_nearest_in_time_if_it_is_near_enough(catalog: Path, tmp_path: Path) -> None:
    speed = [[BEGIN - 60_000, 10.0], [BEGIN + 40_000, 20], [BEGIN + 2 * STEP + 101_000, 30.5]]
    recorded(tmp_path / "bus", "s0", {"vehicle_speed": {"unit": "Unit_KiloMeterPerHour", "values": speed}})
    frame = {"car": {"timestamps": [BEGIN + STEP, BEGIN + 3 * STEP], "values": [True, None]}}
    recorded(tmp_path / "bus", "s1", [{"timestamp": 1, "flexray": frame}])
    recorded(tmp_path / "bus", "another", {"x": {"values": [[1, 2]]}})
    done = joined(catalog, tmp_path / "bus")
    assert (done.signals, done.scenes, done.frames, done.unmatched_frames) == (  # type: ignore[attr-defined]
        ("vehicle_speed", "bus_car"), 2, 2, FRAMES - 2,
    )  # fmt: skip
    assert (done.largest_offset_s, done.problems) == (0.04, ())  # type: ignore[attr-defined]
    sql = (
        "SELECT label, vehicle_speed, bus_car FROM frames WHERE coalesce(vehicle_speed, bus_car) IS NOT NULL"
    )
    assert asked(catalog, sql) == [("s0/0.png", 20.0, None), ("s1/1.png", None, 1.0)]
    assert asked(catalog, "SELECT unit FROM extra WHERE name = 'vehicle_speed'") == [
        ("Unit_KiloMeterPerHour",)
    ]
    assert len(api.query_data("vehicle_speed = 15..25", catalog=catalog).frames) == 1
    assert joined(catalog, tmp_path / "bus", changed=False) is None
    wider = joined(catalog, tmp_path / "bus", 0.2, changed=False)
    assert wider.frames == 3  # type: ignore[union-attr]


def test_a_clock_that_is_a_day_off_is_said_and_not_joined(catalog: Path, tmp_path: Path) -> None:
    day = 86_400_000_000
    recorded(tmp_path / "bus", "s0", {"speed": {"values": [[BEGIN + day + n * STEP, n] for n in range(9)]}})
    recorded(tmp_path / "bus", "s1", {"speed": {"values": [[BEGIN + n * STEP, n] for n in range(9)]}})
    done = joined(catalog, tmp_path / "bus")
    assert done.frames == 4  # type: ignore[attr-defined]
    (problem,) = done.problems  # type: ignore[attr-defined]
    assert problem.startswith("s0: the bus' clock is 24 h ahead of the cameras'"), problem
    assert joined(catalog, tmp_path / "bus", changed=False) is not None  # it is said again


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "no signal"),
        ([], "no signal"),
        ({"a": {"values": [[1, "x"], [2], "y"]}}, "no signal"),
        ([1], "no signal"),
    ],
)
def test_a_recording_that_is_none_is_named(catalog: Path, tmp_path: Path, value: object, said: str) -> None:
    recorded(tmp_path / "bus", "s0", value)
    recorded(tmp_path / "bus", "s1", value).write_text("{")
    done = joined(catalog, tmp_path / "bus")
    assert [said in done.problems[0], "is not JSON" in done.problems[1]] == [True, True]  # type: ignore[attr-defined]
    assert done.frames == 0  # type: ignore[attr-defined]


def test_typed_with_tags_and_a_bus_of_which_one_clock_is_off(tmp_path: Path) -> None:
    root = made_a2d2.make(tmp_path / "a2d2", frames=6)
    for n in range(6):
        image = made_a2d2.file(root, n, "camera")
        image.with_suffix(".json").write_text(json.dumps({"cam_tstamp": BEGIN + n * STEP}))
    one, two = made_a2d2.SCENES
    recorded(root, one, {"vehicle_speed": {"values": [[BEGIN + n * STEP + 20_000, n] for n in range(6)]}})
    recorded(root, two, {"vehicle_speed": {"values": [[BEGIN - 86_400_000_000, 1.0]]}})
    (tmp_path / "tags.csv").write_text(f"scene,weather\n{one},rain\nnowhere,sun\n")
    done = typed(tmp_path, "data", "scan", "a2d2", "--tags", "tags.csv", "--processes", "1")
    assert (done.returncode, done.stderr) == (1, "")  # a clock that is off is not passed over
    assert "Tags weather: 3 frames, 3 without" in done.stdout
    assert "! Of 2 rows, 1 match no frame; first lines: 3" in done.stdout
    assert "Bus: 1 signal for 3 frames, nearest value at most 20 ms away; 3 frames without" in done.stdout
    assert f"! {two}: the bus' clock is 24 h behind the cameras'" in done.stdout
    again = typed(tmp_path, "data", "scan", "a2d2", "--json")
    report = json.loads(again.stdout)
    assert (report["read"], report["tags"], report["bus"]["frames"]) == (0, None, 3)
    done = typed(tmp_path, "data", "query", "weather = rain and vehicle_speed > 1")
    assert "2 frames, " in done.stdout

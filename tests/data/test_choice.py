"""Frames by a network's uncertainty, sets like a stated distribution, and pages of pictures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import duckdb
import pytest
from PIL import Image
from test_query import FRAMES, catalog

import made_a2d2
from assay import api
from assay.data.pages import MOST_PICTURES, query_page
from assay.data.questions.query import frames_like, most_uncertain_frames
from assay.errors import InputError
from assay.frame_manifest import ChosenFrame, made, write_manifest
from command_line import assay as typed

__all__ = ["catalog"]


def validation(directory: Path, labels: list[str]) -> Path:
    """What a validation keeps of its frames: entropies that grow with their number."""
    directory.mkdir()
    rows = ", ".join(f"('{label}', {0.01 * at}::DOUBLE)" for at, label in enumerate(labels))
    duckdb.sql(f"COPY (FROM (VALUES {rows}) t(label, entropy_bits)) TO '{directory}/frames.parquet'")
    return directory


def test_the_most_uncertain_frames_are_those_with_the_highest_entropy(catalog: Path, tmp_path: Path) -> None:
    labels = [frame.label for frame in api.query_data("car < 20", catalog=catalog).frames]
    known = validation(tmp_path / "v", labels[:15])
    found = most_uncertain_frames("car < 20", known, 4, catalog=catalog)
    assert [frame.label for frame in found.manifest.frames] == sorted(labels[11:15])
    assert (found.highest, found.lowest, found.unknown) == (pytest.approx(0.14), pytest.approx(0.11), 5)
    with pytest.raises(InputError, match="15 of the 20 frames"):
        most_uncertain_frames("car < 20", known, 16, catalog=catalog)
    with pytest.raises(InputError, match="finish it"):
        most_uncertain_frames("", tmp_path, 1, catalog=catalog)


def test_a_representative_set_is_nearer_to_its_target_than_a_random_one(
    catalog: Path, tmp_path: Path
) -> None:
    target = tmp_path / "shares.json"
    target.write_text(json.dumps({"car": "3.5%", "pedestrian": 0.52}))
    found = frames_like("", target, 30, seed=1, catalog=catalog)
    assert len({frame.label for frame in found.manifest.frames}) == 30
    assert found.result.distance < 0.5 * found.result.at_random
    same = ", ".join(f"'{frame.label}'" for frame in found.manifest.frames)
    sums = duckdb.connect(str(catalog), read_only=True).sql(
        f"SELECT sum(car) / sum(pixels), sum(pedestrian) / sum(pixels) FROM frames WHERE label IN ({same})"
    )
    car, pedestrian = sums.fetchall()[0]
    shares = {"car": car, "pedestrian": pedestrian, "the rest": 1 - car - pedestrian}
    assert shares[found.result.farthest] == pytest.approx(found.result.share)
    assert frames_like("", target, 30, seed=1, catalog=catalog) == found


def test_a_set_that_cant_match_says_how_far_it_is(catalog: Path, tmp_path: Path) -> None:
    target = tmp_path / "shares.json"
    target.write_text('{"bicycle": 1.0}')
    said = typed(tmp_path, "data", "query", "--like", str(target), "--limit", "10", "--catalog", str(catalog))
    assert said.returncode == 0, said.stderr
    assert "farthest: " in said.stdout
    found = frames_like("", target, 10, catalog=catalog).result
    assert 0.9 < found.distance <= min(1.0, found.at_random)


def test_a_set_like_another_manifest_is_like_its_frames(catalog: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path / "few.jsonl", api.query_data("car > 350", catalog=catalog))
    found = frames_like("car < 390", tmp_path / "few.jsonl", 20, catalog=catalog)
    assert found.result.distance < found.result.at_random
    foreign = made("/data", "a2d2", "", [ChosenFrame("elsewhere.png", "elsewhere.png", 1, 1)])
    write_manifest(tmp_path / "foreign.jsonl", foreign)
    with pytest.raises(InputError, match="1 of its frames are not in the catalog"):
        frames_like("", tmp_path / "foreign.jsonl", 1, catalog=catalog)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "found no table"),
        ('{"tram": 0.1}', "has no class 'tram'"),
        ('{"car": "much"}', "expected a share"),
        ('{"car": 0.7, "bicycle": "40%"}', "add up to 110.00%"),
    ],
)
def test_a_wrong_target_is_an_error(catalog: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError, match=message):
        frames_like("", tmp_path / "t.json", 1, catalog=catalog)


def test_more_than_there_are_is_an_error(catalog: Path, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"car": 0.1}')
    with pytest.raises(InputError, match=f"{FRAMES} frames satisfy"):
        frames_like("", tmp_path / "t.json", FRAMES + 1, catalog=catalog)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_a2d2.make(tmp_path_factory.mktemp("frames") / "a2d2", frames=4, height=32, width=64)


def of(root: Path, *names: tuple[str, str], query: str = "") -> object:
    return made(str(root), "a2d2", query, [ChosenFrame(label, image, 1, 1) for label, image in names])


def relative(root: Path, number: int) -> tuple[str, str]:
    label, image = (made_a2d2.file(root, number, kind).relative_to(root) for kind in ("label", "camera"))
    return str(label), str(image)


def test_a_page_shows_each_frame_and_its_label(frames: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspng"):
        api.scan_data(frames, catalog=tmp_path / "c.duckdb", processes=1)
        words = ("data", "query", "car > 0", "--catalog", str(tmp_path / "c.duckdb"), "--page", "p.html")
        ran = typed(tmp_path, *words)
        assert ran.returncode == 0, ran.stderr
        assert (tmp_path / "p.html").read_text().count("data:image/jpeg;base64,") == 8


def test_names_of_others_are_text_on_a_page(frames: Path, tmp_path: Path) -> None:
    label, image = relative(frames, 0)
    evil = "<script>alert(1)</script>\"onerror='x'.png"
    (frames / evil).unlink(missing_ok=True)
    manifest = of(frames, (label, image), (evil.replace("/", "_"), image), query="<b>bold</b>")
    query_page(manifest, tmp_path / "p.html")  # type: ignore[arg-type]
    page = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "can&#x27;t be read" in page


def test_a_link_out_of_the_data_set_is_not_shown(frames: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 32)).save(tmp_path / "secret.png")
    label, _ = relative(frames, 0)
    (frames / "link.png").symlink_to(tmp_path / "secret.png")
    query_page(of(frames, (label, "link.png")), tmp_path / "p.html")  # type: ignore[arg-type]
    page = (tmp_path / "p.html").read_text()
    assert "a link out of the data set" in page
    assert "data:image" not in page


def test_a_page_of_many_frames_is_bounded(frames: Path, tmp_path: Path) -> None:
    many = of(frames, *[relative(frames, 0)] * (3 * MOST_PICTURES + 1))
    assert query_page(many, tmp_path / "p.html") <= MOST_PICTURES  # type: ignore[arg-type]
    assert "of them are shown" in (tmp_path / "p.html").read_text()


def test_an_image_of_many_pixels_is_not_decoded(frames: Path, tmp_path: Path) -> None:
    header = bytearray((frames / relative(frames, 0)[1]).read_bytes())
    header[16:24] = (60_000).to_bytes(4, "big") * 2
    (frames / "bomb.png").write_bytes(header)
    query_page(of(frames, (relative(frames, 0)[0], "bomb.png")), tmp_path / "p.html")  # type: ignore[arg-type]
    assert "can&#x27;t be read" in (tmp_path / "p.html").read_text()

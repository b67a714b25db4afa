"""BERT under LoadGen: SQuAD's questions are cut, and the words answered are scored, as MLPerf does it."""

from __future__ import annotations

import doctest
import importlib.util
import json
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_inference import directory, read, run

import made_squad
from conftest import require
from made_squad import document, question
from payload_processes import Forks, end

TOKENS = 48
SMALL: Mapping[str, Any] = {
    "model": "bert-tiny",
    "size": TOKENS,
    "batch_size": 16,
    "scenario": "Offline",
    "warmup": 1,
}
ACCURACY: Mapping[str, Any] = SMALL | {"mode": "accuracy"}
RUNS: Mapping[str, Mapping[str, Any]] = {
    "torch": ACCURACY,
    "onnx": ACCURACY | {"backend": "onnxruntime"},
    "untrained": ACCURACY | {"weights": None},
    "onnx-performance": SMALL | {"backend": "onnxruntime", "min_queries": 32},
    "synthetic": SMALL | {"min_queries": 32, "data": None, "weights": None},
}


@pytest.fixture
def _tokenizers() -> None:
    require("tokenizers", importlib.util.find_spec("tokenizers") is not None, "install the extra `inference`")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with questions, and the weights of a network that learned from others like them."""
    for name in ("transformers", "tokenizers", "mlperf_loadgen", "onnxruntime"):
        require(name, importlib.util.find_spec(name) is not None, "install the extra `inference`")
    root = tmp_path_factory.mktemp("squad")
    made_squad.make(root / "squad", paragraphs=24, seed=2)
    train(made_squad.make(root / "others", paragraphs=200, seed=1), root / "weights.pt")
    return root


def train(data: Path, weights: Path) -> None:
    """Learn first and last piece of the answer in each window, or `[CLS]` where the window lacks it."""
    import torch

    torch.manual_seed(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more wait for each other, on work as small as this
    samples = import_module("assay_payloads.inference.squad").Samples(data, TOKENS)
    network = (
        import_module("assay_payloads.inference.loadgen_models").MODELS["bert-tiny"].build(TOKENS, 0).eval()
    )
    inputs = [
        torch.from_numpy(np.stack(one)) for one in zip(*map(samples.read, range(len(samples))), strict=True)
    ]
    ends = torch.tensor([ends_of(one) for one in inputs[0].tolist()])
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for _ in range(50):
        some = torch.randint(len(ends), (32,))
        loss = torch.nn.functional.cross_entropy(network(*(one[some] for one in inputs)), ends[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    torch.set_num_threads(threads)
    torch.save(network.model.state_dict(), weights)


def ends_of(ids: list[int]) -> tuple[int, int]:
    """Where the answer to the question of a window lies, from the pieces alone."""
    pieces = [made_squad.PIECES[one] for one in ids]
    asked = " ".join(pieces[1 : pieces.index("[SEP]")]).capitalize().replace(" ?", "?")
    for answer in made_squad.TOLD[asked]:
        words = answer.lower().replace("ë", "e").removeprefix("the ").split()
        for at in range(len(pieces)):
            if pieces[at : at + len(words)] == words:
                return at, at + len(words) - 1
    return 0, 0


@pytest.fixture(scope="module")
def ran(trained: Path, forks: Forks) -> Path:
    """A folder a run, with what it left behind."""
    for name, params in RUNS.items():
        directory(trained / name, of(trained, params))
    run(forks, *(trained / name for name in RUNS))
    return trained


def of(root: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the data and the weights, where they don't say otherwise."""
    return {"data": str(root / "squad"), "weights": str(root / "weights.pt"), **params}


def logged(folder: Path) -> list[np.ndarray]:
    """Logits of each sample, tokens × 2, from LoadGen's accuracy log, as MLPerf's script reads them."""
    entries = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    found = {entry["qsl_idx"]: np.frombuffer(bytes.fromhex(entry["data"]), np.float32) for entry in entries}
    return [found[index].reshape(-1, 2) for index in range(len(found))]


def direct_f1(data: Path, logits: list[np.ndarray]) -> float:
    """F1 by transformers' offsets, every pair of tokens and torchmetrics: windows here don't overlap."""
    from torchmetrics.functional.text import squad
    from transformers import BertTokenizerFast

    cut = BertTokenizerFast(vocab={piece: at for at, piece in enumerate(made_squad.PIECES)})
    given, right, left = [], [], iter(logits)
    for entry in json.loads((data / "dev-v1.1.json").read_text())["data"][0]["paragraphs"]:
        context = entry["context"]
        offsets = cut(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        for one in entry["qas"]:
            before = 2 + len(cut(one["question"], add_special_tokens=False)["input_ids"])
            room = TOKENS - before - 1
            spans = []
            for start in range(0, len(offsets), room):
                rows = next(left)[before : before + min(room, len(offsets) - start)].astype(float)
                spans += [
                    (first + last, start + at, start + to)
                    for at, first in enumerate(rows[:, 0])
                    for to, last in enumerate(rows[at : at + 30, 1], start=at)
                ]
            _, at, to = max(spans)
            given.append({"prediction_text": context[offsets[at][0] : offsets[to][1]], "id": str(len(given))})
            answers = {key: [each[key] for each in one["answers"]] for key in ("text", "answer_start")}
            right.append({"answers": answers, "id": str(len(right))})
    assert next(left, None) is None, "a window for each answer"
    return float(squad(given, right)["f1"]) / 100


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "onnx"])
@pytest.mark.long
def test_f1_of_a_trained_model_is_what_transformers_and_torchmetrics_find_in_the_log(
    ran: Path, backend: str
) -> None:
    reading = read(ran / backend, of(ran, RUNS[backend]))
    (accuracy,) = reading.measurements
    assert (accuracy.metric, reading.problems) == ("accuracy", ())
    assert accuracy.value > 0.9, "it has learned"
    assert accuracy.value == pytest.approx(direct_f1(ran / "squad", logged(ran / backend)), abs=1e-6)
    assert reading.facts["samples"] == len(logged(ran / backend)) > 1.5 * 24, "texts of several windows"


@pytest.mark.torch
@pytest.mark.long
def test_torch_and_onnx_runtime_give_the_same_logits_and_figure(ran: Path) -> None:
    assert np.stack(logged(ran / "torch")) == pytest.approx(np.stack(logged(ran / "onnx")), abs=1e-3)
    figures = [read(ran / name, of(ran, RUNS[name])).measurements[0].value for name in ("torch", "onnx")]
    assert figures[0] == figures[1]


@pytest.mark.torch
@pytest.mark.long
def test_an_untrained_model_misses_by_far(ran: Path) -> None:
    (accuracy,) = read(ran / "untrained", of(ran, RUNS["untrained"])).measurements
    assert accuracy.value < 0.3


@pytest.mark.torch
@pytest.mark.long
def test_questions_are_measured_in_performance_and_synthetic_ones_without_data(ran: Path) -> None:
    for name, samples in (("onnx-performance", len(logged(ran / "torch"))), ("synthetic", 16)):
        reading = read(ran / name, of(ran, RUNS[name]))
        assert reading.problems == ()
        assert (reading.facts["validity"], reading.facts["samples"]) == ("VALID", samples)


@pytest.mark.torch
@pytest.mark.long
def test_the_script_scores_a_log_again_whatever_the_length_of_its_samples(
    ran: Path, forks: Forks, tmp_path: Path
) -> None:
    (accuracy,) = read(ran / "torch", of(ran, RUNS["torch"])).measurements
    script = ["{python}", "-m", "assay_payloads.inference.loadgen_accuracy", "mlperf_log_accuracy.json"]
    printed = tmp_path / "accuracy"
    assert end(forks.start([*script, "--data", "../squad"], ran / "torch", {}, printed)) == (0, "")
    assert float(printed.read_text()) == accuracy.value


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.usefixtures("_tokenizers")
def test_a_model_of_images_refuses_questions(trained: Path) -> None:
    bench = import_module("assay_payloads.inference.loadgen").Bench
    options = Namespace(model="mobilenet", size=None, data=trained / "squad")
    with pytest.raises(
        ValueError, match=r"squad: requires spans of a text, but mobilenet answers with classes"
    ):
        bench(None, options)


def samples(folder: Path, *paragraphs: tuple[str, list[dict[str, Any]]], length: int = 384) -> Any:
    """The samples of these paragraphs."""
    made_squad.write(folder, document(paragraphs))
    return import_module("assay_payloads.inference.squad").Samples(folder, length)


def decoded(ids: np.ndarray) -> list[str]:
    return [made_squad.PIECES[one] for one in ids if one]


@pytest.mark.usefixtures("_tokenizers")
def test_a_sample_is_the_question_and_its_text_in_lower_case_pieces(tmp_path: Path) -> None:
    text = " Zoë  spoke\u00a0of\t(1066)."
    found = samples(tmp_path, (text, [question("WHO?", text, "Zoë")]), length=80)
    ids, mask, types = found.read(0)
    assert decoded(ids) == [
        "[CLS]",
        "who",
        "?",
        "[SEP]",
        "zoe",
        "spoke",
        "of",
        "(",
        "1066",
        ")",
        ".",
        "[SEP]",
    ]
    assert [one.shape for one in (ids, mask, types)] == [(80,)] * 3
    assert {one.dtype for one in (ids, mask, types)} == {np.dtype(np.int64)}
    assert mask.tolist() == [1] * 12 + [0] * 68
    assert types.tolist() == [0] * 4 + [1] * 8 + [0] * 68


@pytest.mark.usefixtures("_tokenizers")
def test_long_texts_are_windows_128_pieces_apart_and_long_questions_are_cut(tmp_path: Path) -> None:
    """Beside 64 pieces of a question 384 tokens hold 317 of a text."""
    text, asked = " ".join(["it"] * 700 + ["1066"]), "it " * 65 + "rained?"
    found = samples(tmp_path, (text, [question(asked, text, "1066")]))
    assert len(found) == 4, "at 0, 128, 256 and 384, which reaches 701"
    pieces = [decoded(found.read(number)[0]) for number in range(4)]
    assert all(one[:66] == ["[CLS]", *["it"] * 64, "[SEP]"] for one in pieces)
    assert [len(one) for one in pieces] == [384] * 4
    assert [one[-2] for one in pieces] == ["it"] * 3 + ["1066"]


def peaks(found: Any, *at: tuple[int, int, int, float]) -> list[bytes]:
    """Answers to each sample that are low but for logits of a sample, side, token and value."""
    logits = np.full((len(found), len(found.read(0)[0]), 2), -50, dtype=np.float32)
    for sample, side, token, value in at:
        logits[sample, token, side] = value
    return [one.tobytes() for one in logits]


@pytest.mark.usefixtures("_tokenizers")
def test_the_answer_of_a_long_text_may_lie_in_a_later_window_and_counts_where_most_is_around_it(
    tmp_path: Path,
) -> None:
    """Windows of 378 pieces at 0, 128, 256 and 384: piece 400 has most around it in the third."""
    text = " ".join(["it"] * 400 + ["1066"] + ["and"] * 300)
    found = samples(tmp_path, (text, [question("When was?", text, "1066")]))
    assert len(found) == 4
    third, fourth = 400 - 256 + 5, 400 - 384 + 5
    assert decoded(found.read(2)[0])[third] == decoded(found.read(3)[0])[fourth] == "1066"
    right = ((2, 0, third, 5.0), (2, 1, third, 5.0))
    assert found.score(peaks(found, *right)) == 1
    nearer_elsewhere = ((3, 0, fourth - 1, 9.0), (3, 1, fourth - 1, 9.0))
    assert found.score(peaks(found, *right, *nearer_elsewhere)) == 1
    better = ((3, 0, 300, 9.0), (3, 1, 300, 9.0))
    assert found.score(peaks(found, *right, *better)) == 0


@pytest.mark.usefixtures("_tokenizers")
def test_ends_that_make_no_span_are_passed_over(tmp_path: Path) -> None:
    text = " ".join(["it", "1066", *["and"] * 60])
    found = samples(tmp_path, (text, [question("When?", text, "1066")]), length=120)
    right = ((0, 0, 5, 1.0), (0, 1, 5, 1.0))
    others = {
        "in the question": ((0, 0, 1, 9.0), (0, 1, 2, 9.0)),
        "in what is filled up": ((0, 0, 75, 9.0), (0, 1, 76, 9.0)),
        "the end before the beginning": ((0, 0, 10, 9.0), (0, 1, 4, 9.0)),
        "more than 30 pieces": ((0, 0, 4, 9.0), (0, 1, 40, 9.0)),
    }
    for why, other in others.items():
        assert found.score(peaks(found, *right, *other)) > 0, why
    twenty = [(0, side, token, 9.0) for token in range(80, 100) for side in (0, 1)]
    assert found.score(peaks(found, *right, *twenty[:38])) == 1
    assert found.score(peaks(found, *right, *twenty)) == 0, "only 20 of each side are looked at"


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize(
    ("text", "first", "last", "answer"),
    [
        ("They met (1066). And", 3, 3, "1066"),
        ("Ada's harbour,\u202f it", 3, 3, "harbour"),
        ("Ada's harbour,\u202f it", 0, 1, "Ada's"),
        ("of Zoë.  And", 1, 1, "Zoë"),
        ("before (many  things).", 2, 3, "many things"),
        ("Ada'speaking, of", 2, 3, "Ada'speaking,"),
        ("Ada'berg, of", 2, 2, "berg"),
        ("met (Xyz). And", 2, 2, "(Xyz)."),
    ],
)
def test_an_answers_text_is_cut_out_of_its_words_as_the_reference_cuts_it(
    tmp_path: Path, text: str, first: int, last: int, answer: str
) -> None:
    """Whole words stand where one of them is of several pieces, or of none that are known."""
    pieces = (*made_squad.PIECES, "spea", "##king")
    made_squad.write(tmp_path, document([(text, [question("Who?", text, text[:3])])]), pieces)
    (windows,) = import_module("assay_payloads.inference.squad").Samples(tmp_path, 48).windows
    assert windows.text.cut(first, last) == answer


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [
        ("The Harbour!", ["an old bridge", "harbour"], 1),
        ("in 1066", ["the year 1066", "1066"], 2 / 3),
        ("Ada Ada Berg", ["Ada Berg"], 0.8),
        ("U.S.", ["us"], 1),
        ("“1066”", ["1066"], 0),
        ("Zoë", ["Zoe"], 0),
        ("ZOË", ["zoë"], 1),
        ("the", ["A"], 0),
    ],
)
def test_f1_is_that_of_the_words_without_capitals_articles_and_asciis_punctuation(
    answer: str, right: list[str], f1: float
) -> None:
    assert import_module("assay_payloads.inference.squad").f1(answer, right) == pytest.approx(f1)


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (np.zeros((47, 2), np.float32), "sample 1 has 94 finite logits; expected 96"),
        (np.full((48, 2), np.nan, np.float32), "sample 1 has 0 finite logits; expected 96"),
    ],
)
def test_answers_that_are_not_logits_of_each_token_are_no_accuracy(
    tmp_path: Path, answer: np.ndarray, told: str
) -> None:
    asked = [question("Who?", "Ada", "Ada"), question("When?", "Ada", "Ada")]
    found = samples(tmp_path, ("Ada", asked), length=48)
    with pytest.raises(ValueError, match=told):
        found.score([peaks(found)[0], answer.tobytes()])


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "has no answers"),
        ('[{"qsl_idx": 0}]', "can't be read as LoadGen's accuracy log: 'data'"),
        ('[{"qsl_idx": 0, "data": "4', "can't be read as LoadGen's accuracy log"),
    ],
)
def test_a_log_without_answers_is_named(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "log.json").write_text(content)
    with pytest.raises(ValueError, match=rf"log\.json: {told}"):
        import_module("assay_payloads.inference.loadgen_accuracy").answered(tmp_path / "log.json")


@pytest.mark.usefixtures("_tokenizers")
def test_the_examples_of_the_payloads_own_page_hold() -> None:
    assert doctest.testmod(import_module("assay_payloads.inference.squad")) == (0, 4)


@pytest.mark.usefixtures("_tokenizers")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "expected `data`, a list, as in SQuAD v1.1; found list"),
        ({"version": "1.1", "rows": []}, "expected `data`, a list, .* found the keys version, rows"),
        (document([]), "has no questions"),
        (document([("Ada met", [])]), "has no questions"),
        (
            document([("Ada met", [{"question": "Who?", "id": "1"}])]),
            r"data\[0\]: paragraphs\[0\]: qas\[0\]: expected `answers`, a list",
        ),
        (
            document([("Ada met", [{"question": "Who?", "answers": []}])]),
            r"qas\[0\]: has no answer; expected SQuAD v1.1, where every question has one",
        ),
        (
            document([("Ada met", [question("Who?", "", "Ada", at=1)])]),
            r"answers\[0\]: its text is 'Ada', but the context has 'da ' at 1",
        ),
    ],
)
def test_questions_of_another_form_are_refused_with_file_and_place(
    tmp_path: Path, content: Any, told: str
) -> None:
    made_squad.write(tmp_path, content)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/dev-v1\.1\.json: .*{told}"):
        import_module("assay_payloads.inference.loadgen_data").labeled(tmp_path, 48)


@pytest.mark.long
@pytest.mark.usefixtures("_tokenizers")
def test_files_that_lack_or_are_no_text_are_named(tmp_path: Path) -> None:
    labeled = import_module("assay_payloads.inference.loadgen_data").labeled
    with pytest.raises(ValueError, match=r"SQuAD's dev-v1\.1\.json and vocab\.txt"):
        labeled(tmp_path, 48)
    made_squad.write(tmp_path, document([("Ada", [question("Who?", "Ada", "Ada")])]), ["[CLS]", "ada"])
    with pytest.raises(ValueError, match=r"vocab\.txt: has no \[SEP\], \[UNK\]; expected vocab\.txt of BERT"):
        labeled(tmp_path, 48)
    made_squad.write(tmp_path, "", [*made_squad.PIECES, *map(str, range(30_522))])
    with pytest.raises(ValueError, match=r"vocab\.txt: has 30,5\d\d pieces; expected .* 30,522 pieces"):
        labeled(tmp_path, 48)
    (tmp_path / "vocab.txt").write_bytes(b"[CLS]\n\xff")
    with pytest.raises(ValueError, match=r"vocab\.txt: can't be read as UTF-8"):
        labeled(tmp_path, 48)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"vocab\.txt: is missing; expected .* vocab\.txt of BERT, uncased"):
        labeled(tmp_path, 48)
    made_squad.write(tmp_path, "")
    (tmp_path / "dev-v1.1.json").write_text("{")
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json: can't be read as JSON"):
        labeled(tmp_path, 48)
    (tmp_path / "dev-v1.1.json").unlink()
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json: is missing; expected dev-v1\.1\.json from SQuAD"):
        labeled(tmp_path, 48)


@pytest.mark.usefixtures("_tokenizers")
def test_samples_too_short_for_a_question_and_a_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="samples of 8 tokens have no room for a text next to a question of 6"
    ):
        samples(tmp_path, ("Ada", [question("it " * 6, "Ada", "Ada")]), length=8)

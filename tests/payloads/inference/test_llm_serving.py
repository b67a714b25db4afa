"""Load on an LLM server: against one that sends its tokens at known times, and one that breaks as told."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import doctest
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom

from assay import payload_files
from assay.cli import assay
from assay.errors import InputError
from assay.records import Reading, Scalar, Shape
from assay.workloads import WORKLOADS
from assay_payloads.measuring import service_level
from assay_payloads.measuring.service_level import LatencyBounds, backlog_growth, fewest, percentile, proves
from assay_payloads.serving import completion, llm_client, llm_load
from conftest import ROOT, SUPPORT, long_but, long_rows_but, require
from llm_server import Answers, serving

sys.path.insert(0, str(ROOT / "benchmarks"))  # its files know each other by their bare names, as scripts

import backlog

WORKLOAD = WORKLOADS["llm-serving"]
SMALL = {
    "requests": 20,
    "min_duration_s": 0.0,
    "warmup": 1,
    "input_tokens": 16,
    "output_tokens": 8,
    "rate": 200.0,
}
BEFORE = 3  # requests before those that count: two to calibrate, one to warm up
SECRET = "sk-f00d-and-cafe"


@dataclass(frozen=True)
class Ran:
    """A client that came to its end."""

    code: int
    errors: str
    log: str
    reading: Reading
    requests: list[dict[str, Any]]

    def figure(self, metric: str, percentile: float | None = None) -> float:
        labels = {} if percentile is None else {"percentile": percentile}
        [found] = [m.value for m in self.reading.measurements if m.metric == metric and m.labels == labels]
        return found

    def fact(self, name: str) -> Scalar:
        return self.reading.facts[name]


def load(folder: Path, url: str, env: Mapping[str, str] | None = None, seed: int = 1, **params: Any) -> Ran:
    """Run the client as its task says, in a folder of its own."""
    asked = WORKLOAD.params(**{"model": "tiny", "url": url, **SMALL, **params})
    task = WORKLOAD.task(asked, Shape(1, 1), seed)
    payload_files.lay_out(folder, {file.name: file.data for file in task.files})
    ran = subprocess.run(
        [sys.executable if word == "{python}" else word for word in task.argv],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    log = folder / "rank-0.log"
    log.write_text(ran.stdout)
    lines = (folder / task.outputs[0]).read_text().splitlines()
    requests = [request for request in map(json.loads, lines) if request["stretch"]]
    reading = WORKLOAD.reader.read({"rank-0.log": log}, asked)
    return Ran(ran.returncode, ran.stderr, ran.stdout, reading, sorted(requests, key=lambda r: r["number"]))


@pytest.mark.parametrize("endpoint", long_but(1, ["chat", "completions"]))
@pytest.mark.parametrize(
    "how", long_but(1, [Answers(0.1, 0.1), Answers(0.1, 0.1, chunked=False, done=False)])
)
def test_times_are_those_at_which_the_server_sent_its_tokens(
    tmp_path: Path, endpoint: str, how: Answers
) -> None:
    """By the server's own log, on the same clock; when the client began is unknown, but one moment for all.

    However busy the machine is, nothing is asked for before it is due nor seen before it was sent; and of 20
    requests the least disturbed one is seen sooner than half a token later, or it was another token's time.
    """
    with serving(how) as server:
        ran = load(tmp_path, server.url, endpoint=endpoint, rate=50.0)
    assert (ran.code, ran.errors, ran.reading.problems) == (0, "", ())
    sent = {asked.name: asked for asked in server.asked}
    pairs = [(request, sent[f"{request['stretch']}-{request['number']}"]) for request in ran.requests]
    latest = min(asked.came - request["due_s"] for request, asked in pairs)
    for stamp, token in (("first_s", 0), ("last_s", -1)):
        earliest = max(asked.went[token] - request[stamp] for request, asked in pairs)
        assert earliest <= latest, f"{stamp}: no beginning explains all of them"
        assert latest - earliest < how.gap_s / 2, f"{stamp}: seen late, or of another token"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("how", long_but(1, [Answers(), Answers(chunked=False)]))
def test_openais_own_client_reads_the_server_of_these_tests_as_ours_does(
    tmp_path: Path, how: Answers
) -> None:
    require("torch", find_spec("openai") is not None, "openai comes with what `transformers serve` needs")
    import openai

    with serving(how) as server, openai.OpenAI(base_url=server.url, api_key="none") as client:
        ours = load(tmp_path, server.url, requests=1, endpoint="chat").requests[0]
        theirs = list(
            client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": server.asked[-1].body["messages"][0]["content"]}],
                max_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    texts = [chunk.choices[0].delta.content for chunk in theirs if chunk.choices and chunk.choices[0].delta]
    usage = theirs[-1].usage
    assert usage is not None
    assert len(list(filter(None, texts))) == ours["pieces"] == 8
    assert (usage.prompt_tokens, usage.completion_tokens) == (ours["prompt_tokens"], ours["output_tokens"])


def test_every_figure_follows_from_the_file_of_requests(tmp_path: Path) -> None:
    with serving(Answers(0.01, 0.002)) as server:
        ran = load(tmp_path, server.url, requests=30)
    assert len(ran.requests) == 30
    assert ran.fact("tokens_per_piece") == 1
    waited = [r["first_s"] - r["due_s"] for r in ran.requests]
    per_token = [(r["last_s"] - r["first_s"]) / (r["output_tokens"] - 1) for r in ran.requests]
    for percent in (50.0, 90.0, 99.0):
        rank = min(30, math.ceil(31 * percent / 100)) - 1
        assert ran.figure("first_token", percent) == pytest.approx(sorted(waited)[rank], abs=2e-6)
        assert ran.figure("time_per_token", percent) == pytest.approx(sorted(per_token)[rank], abs=2e-6)
    seconds = max(r["last_s"] for r in ran.requests)
    assert ran.figure("throughput") == pytest.approx(30 / seconds, rel=1e-4)
    assert ran.figure("token_throughput") == pytest.approx(30 * 8 / seconds, rel=1e-4)
    assert ran.fact("seconds_measured") == pytest.approx(seconds, abs=2e-6)


def test_latency_counts_from_when_a_request_was_due_and_so_holds_the_wait_in_the_queue(
    tmp_path: Path,
) -> None:
    with serving(Answers(first_s=0.05), one_at_a_time=True) as server:
        served_in_turn = load(tmp_path, server.url, requests=20, rate=100.0, output_tokens=1)
        alone = load(tmp_path, server.url, requests=8, scenario="users", users=1, output_tokens=1)
    # 20 requests of 50 ms each that arrive within about 0.2 s: the last waits for all before it.
    assert served_in_turn.figure("first_token", 99.0) > 20 * 0.05 - 0.45
    waits = [r["first_s"] - r["due_s"] for r in alone.requests]
    assert 0.05 < min(waits) < 0.3  # of a machine that is busy with others


@pytest.mark.long
def test_arrivals_are_a_poisson_process_that_the_seed_decides(tmp_path: Path) -> None:
    with serving(Answers()) as server:
        one, two, other = (
            load(tmp_path, server.url, seed=seed, requests=300, rate=1000.0, input_tokens=41, output_tokens=1)
            for seed in (1, 1, 2)
        )
    due = [r["due_s"] for r in one.requests]
    assert due == [r["due_s"] for r in two.requests] != [r["due_s"] for r in other.requests]
    prompts = [asked.body["prompt"] for asked in server.asked if not asked.name.startswith("calibration")]
    assert len(set(prompts)) == len(prompts), "no cache of the run before answers"
    assert due[-1] == pytest.approx(0.3, rel=0.03), "as many as the rate asks for, not left to chance"
    gaps = [later - earlier for earlier, later in zip([0.0, *due], due, strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.001, rel=4 / math.sqrt(300))
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert spread == pytest.approx(mean, rel=0.3), "of an exponential distribution both are the same"


def test_users_wait_for_their_answers_before_they_ask_again(tmp_path: Path) -> None:
    with serving(Answers(0.01, 0.001)) as server:
        ran = load(tmp_path, server.url, scenario="users", users=3, requests=30)
    assert ran.reading.problems == ()
    moments = sorted((r["due_s"], r["last_s"]) for r in ran.requests)
    most = max(sum(due <= at < last for due, last in moments) for at, _ in moments)
    assert most == 3


def test_a_prompt_has_the_tokens_that_were_asked_for_by_the_servers_own_count(tmp_path: Path) -> None:
    with serving(Answers()) as server:  # counts two tokens a word and seven around
        ran = load(tmp_path, server.url, input_tokens="uniform 31 201", output_tokens="uniform 2 9")
    asked = {r["number"]: r["prompt_tokens"] for r in ran.requests}
    assert all(31 <= tokens <= 201 for tokens in asked.values())
    assert len(set(asked.values())) > 10
    assert ran.fact("words_per_token") == 0.5
    assert ran.fact("mean_input_tokens") == pytest.approx(sum(asked.values()) / 20)
    assert {r["output_tokens"] for r in ran.requests} <= set(range(2, 10))
    prompts = [request.body["prompt"] for request in server.asked]
    assert len(set(prompts)) == len(prompts), "no cache of prefixes answers"


def test_lengths_of_a_table_go_together(tmp_path: Path) -> None:
    table = tmp_path / "of-real-users.csv"
    table.write_text("when,input_tokens,output_tokens\n1,31,2\n2,101,9\n3,201,4\n")
    with serving(Answers()) as server:
        ran = load(tmp_path, server.url, lengths=str(table))
    assert {(r["prompt_tokens"], r["output_tokens"]) for r in ran.requests} == {(31, 2), (101, 9), (201, 4)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("input_tokens\n3\n", "no rows with the columns input_tokens and output_tokens"),
        ("input_tokens,output_tokens\n", "no rows with"),
        ("input_tokens,output_tokens\n3,4\n5,0\n", "table.csv:3: input_tokens and output_tokens must be"),
        ("input_tokens,output_tokens\n3\n", "table.csv:2: input_tokens and output_tokens must be integers"),
    ],
)
def test_a_table_that_holds_no_lengths_is_refused_where_it_is_wrong(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "table.csv").write_text(text)
    params = WORKLOAD.params.model_validate(
        {"model": "tiny", "lengths": "table.csv"}, context={"directory": str(tmp_path)}
    )
    with pytest.raises(InputError, match=complaint):
        WORKLOAD.task(params, Shape(1, 1), 1)


def test_a_table_that_is_not_there_is_said_when_it_is_planned() -> None:
    params = WORKLOAD.params(model="tiny", lengths="nowhere.csv")
    with pytest.raises(InputError, match=r"nowhere\.csv: can't be read: No such file or directory"):
        WORKLOAD.task(params, Shape(1, 1), 1)


def test_answers_shorter_than_asked_are_counted(tmp_path: Path) -> None:
    with serving(lambda number: Answers(cut_to=3 if number % 2 else None)) as server:
        ran = load(tmp_path, server.url)
    assert ran.fact("shorter_than_asked") == 10
    assert ran.fact("mean_output_tokens") == 5.5


def test_without_a_count_of_tokens_the_run_fails_and_says_what_to_do(tmp_path: Path) -> None:
    with serving(Answers(usage=False)) as server:
        ran = load(tmp_path, server.url)
    assert ran.code == 1
    assert "reports no usage" in ran.errors
    assert "tokens: pieces" in ran.errors
    assert '"unit"' not in ran.log


@pytest.mark.long
def test_pieces_are_counted_and_figures_per_token_left_out_only_where_one_says_so(tmp_path: Path) -> None:
    with serving(Answers(usage=False, together=2)) as server:
        pieces = load(tmp_path, server.url, tokens="pieces")
        none = load(tmp_path, server.url, tokens="none")
    assert pieces.reading.problems == ()
    assert (pieces.fact("tokens_counted_by"), pieces.fact("mean_output_tokens")) == ("client", 4)
    assert pieces.fact("tokens_per_piece") == 1
    assert none.reading.problems == ()
    assert none.fact("tokens_counted_by") == "nobody"
    assert not {m.metric for m in none.reading.measurements} & {"time_per_token", "token_throughput"}
    assert all(r["output_tokens"] is None for r in none.requests)


def later(how: Answers) -> Any:
    """Well at first, then so."""
    return lambda number: how if number >= BEFORE + 5 else Answers()


@pytest.mark.parametrize(
    ("how", "cause"),
    long_rows_but(4, [
        (Answers(status=503, says='{"error": "full"}'), 'HTTP 503 Service Unavailable: {"error": "full"}'),
        (Answers(reset_after=3), "the stream broke after 3 pieces: Connection reset by peer"),
        (Answers(error_after=2, says="out of blocks"), "the server ended the stream with an error"),
        (Answers(first_s=9.0), "no complete answer within 2 s"),
        (Answers(status=429, says="slow down"), "HTTP 429 Too Many Requests: slow down"),
        (Answers(kind="application/json", says="{}"), "answered with application/json, not with a stream"),
        (Answers(reset_after=0), "the connection broke before an answer arrived: Connection reset by peer"),
        (Answers(break_after=3), "the stream broke after 3 pieces"),
        (Answers(break_after=3, chunked=False), "the stream ended after 3 pieces without saying why"),
        (Answers(stop_after=3), "the stream ended after 3 pieces without saying why"),
        (Answers(usage=False), "the server reported no usage"),
        (Answers(cut_to=0), "the answer contained no text; its finish reason: stop"),
    ]),
)  # fmt: skip
def test_a_request_that_fails_ends_the_run_with_its_cause_and_no_figure(
    tmp_path: Path, how: Answers, cause: str
) -> None:
    with serving(later(how)) as server:
        ran = load(tmp_path, server.url, timeout_s=2.0)
    assert ran.code == 1
    assert cause in ran.errors
    assert "requests failed, but only 0.00% are allowed" in ran.errors
    assert "Traceback" not in ran.errors
    assert '"unit"' not in ran.log
    assert any(cause in request["error"] for request in ran.requests)


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_PIECES = st.sampled_from(
    [
        *(_HEAD, _HEAD + b"\r\n", b"\r\n", b"HTTP/1.1 500\r\n", b"10\r\n", b"0\r\n\r\n"),
        *(b"transfer-encoding: chunked\r\n", b"content-length: 5\r\n", b"content-length: x\r\n"),
        b'data: {"choices": [{"text": "a", "finish_reason": "stop"}]}\n',
        *(b'data: {"choices": 3}\n', b'data: {"choices": [{"delta": 1}]}\n', b'data: {"usage": 1}\n'),
        *(b'data: {"usage": {"prompt_tokens": "x"}}\n', b"data: [DONE]\n", b"data: []\n", b"data: null\n"),
    ]
)


@given(st.sampled_from([b"", _HEAD + b"\r\n"]), st.lists(_PIECES | st.binary(max_size=20), max_size=9))
def test_whatever_a_server_sends_is_an_answer_or_a_failure_with_its_cause(
    head: bytes, pieces: list[bytes]
) -> None:
    async def ask() -> object:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}")
            writer.write(head + b"".join(pieces))
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            try:
                return await completion.Endpoint(url, "/completions", 5.0).stream("1-1", {})
            except completion.FailedRequestError as error:
                return str(error)

    assert asyncio.run(ask())


@pytest.mark.long
def test_failures_within_the_allowed_share_are_counted_and_have_no_times(tmp_path: Path) -> None:
    """One of each kind among 20; one answer that is slow to begin is no failure, and its time counts."""
    kinds = {
        4: Answers(status=429, says="slow down"),
        5: Answers(status=500),
        7: Answers(reset_after=0),
        9: Answers(reset_after=3),
        11: Answers(error_after=2, says="out of blocks"),
        13: Answers(break_after=3),
        15: Answers(first_s=9.0),
        17: Answers(first_s=1.0),
    }
    with serving(lambda number: kinds.get(number, Answers())) as server:
        ran = load(tmp_path, server.url, max_failed=0.4, timeout_s=4.0, rate=20.0)
    assert ran.reading.problems == ()
    assert (ran.fact("requests"), ran.fact("failed_requests")) == (20, 7)
    failed = [request for request in ran.requests if request["error"]]
    assert len(failed) == 7
    assert {(r["first_s"], r["last_s"], r["output_tokens"]) for r in failed} == {(None, None, None)}
    assert ran.figure("throughput") == pytest.approx(13 / float(ran.fact("seconds_measured")), rel=1e-4)
    assert 1 < ran.figure("first_token", 99.0) < 4


def test_no_server_and_no_http_are_told_apart(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        nobody = load(tmp_path, f"http://127.0.0.1:{port}/v1", timeout_s=0.3)
    refused = load(tmp_path, f"http://127.0.0.1:{port}/v1")
    assert (nobody.code, refused.code) == (1, 1)
    assert "the first requests failed: no complete answer within 0.3 s" in nobody.errors
    assert f"can't connect to 127.0.0.1:{port}: Connection refused" in refused.errors


@pytest.mark.long
def test_a_server_behind_tls_is_believed_only_with_a_certificate(tmp_path: Path) -> None:
    require("openssl", shutil.which("openssl") is not None, "makes the server's certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-days",
        "2",
    ]
    name = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *name], check=True, capture_output=True)
    with serving(Answers(), certificate=certificate, key=key) as server:
        known = load(tmp_path, server.url, env={"SSL_CERT_FILE": str(certificate)})
        stranger = load(tmp_path, server.url)
    assert (known.code, known.reading.problems) == (0, ())
    assert stranger.code == 1
    assert "certificate verify failed" in stranger.errors


def test_a_server_that_is_gone_ends_the_sending_at_once(tmp_path: Path) -> None:
    with serving(later(Answers(status=500))) as server:
        ran = load(tmp_path, server.url, scenario="users", users=2, min_duration_s=60.0)
    assert ran.code == 1
    assert len(ran.requests) < 20


def test_the_key_is_sent_and_stands_nowhere(tmp_path: Path) -> None:
    echo = Answers(status=401, says=f"wrong key {SECRET}")
    with serving(later(echo)) as server:
        ran = load(tmp_path, server.url, env={"KEY_OF_OURS": SECRET}, api_key_env="KEY_OF_OURS")
    assert {asked.key for asked in server.asked} == {f"Bearer {SECRET}"}
    assert "wrong key (redacted)" in ran.errors
    kept = ["rank-0.log", "requests.jsonl"]
    assert not any(SECRET in text for text in (ran.errors, *((tmp_path / name).read_text() for name in kept)))


def slow(*numbers: int) -> Any:
    return lambda number: Answers(first_s=1.5 if number - BEFORE in numbers else 0.0)


def test_a_run_within_its_bounds_is_valid_and_one_beyond_is_no_result(tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"ttft_bound_s": 1.0, "percent": 90.0, "requests": 110, "rate": 50.0}
    with serving(slow(7)) as server:
        valid = load(tmp_path, server.url, **bounds)
    with serving(slow(*range(10, 30))) as server:
        invalid = load(tmp_path, server.url, **bounds)
    assert (valid.fact("validity"), valid.reading.problems) == ("VALID", ())
    assert valid.figure("goodput") == pytest.approx(valid.figure("throughput") * 109 / 110)
    assert invalid.code == 0
    [problem] = invalid.reading.problems
    assert problem == (
        "INVALID: time to first token was above 1 s in 20 of 110 requests, which doesn't show 90 % within it"
    )


@pytest.mark.long
def test_a_stretch_whose_backlog_grows_is_not_valid_though_its_bound_is_kept(tmp_path: Path) -> None:
    with serving(Answers(first_s=0.01), one_at_a_time=True) as server:  # takes at most 100 a second
        ran = load(
            tmp_path, server.url, ttft_bound_s=60.0, percent=90.0, requests=160, rate=160.0, output_tokens=1
        )
    assert ran.fact("validity") == "INVALID"
    assert float(ran.fact("backlog_growth")) > 0.3
    [problem] = ran.reading.problems
    assert re.match(
        r"INVALID: the backlog grows: each second of load adds [\d.]+ s of latency, so the server keeps up "
        r"with about \d+% of this rate$",
        problem,
    )


def test_a_backlog_that_grows_is_measured_and_swings_are_none() -> None:
    due = [number / 10 for number in range(600)]
    chance = random.Random(3)
    steady = [3 + chance.gauss(0, 1) for _ in due]
    assert backlog_growth(due, steady) == 0
    growing: list[float | None] = [took + 0.08 * at for at, took in zip(due, steady, strict=True)]
    assert backlog_growth(due, growing) == pytest.approx(0.08, abs=0.01)
    assert backlog_growth(due, [took + 0.01 * at for at, took in zip(due, steady, strict=True)]) == 0
    assert backlog_growth(due, steady[:-30] + [60.0] * 30) == 0, "a stall at the end is one block"
    growing[::3] = [None] * 200
    assert backlog_growth(due, growing) == pytest.approx(0.08, abs=0.01), "of those that were answered"


@pytest.mark.parametrize("answered", range(4))
def test_a_few_requests_show_no_backlog(answered: int) -> None:
    assert backlog_growth([1.0, 2.0, 3.0], [*[1.0, 5.0, 9.0][:answered], *[None] * (3 - answered)]) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("loads", "stretches"), [((90, 108), 60), pytest.param(range(80, 116), 150, marks=pytest.mark.long)]
)
def test_stretches_are_valid_as_often_as_documented(loads: Sequence[int], stretches: int) -> None:
    cell = r" ([\d.]+) → ([\d.]+) \|"
    rows = re.findall(rf"^\| (\d+) % \|{cell * 3}$", DOCUMENT, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [round(100 * share) for share in backlog.LOADS]
    for percent, *cells in rows:
        for server, said in zip(backlog.SERVERS, zip(cells[::2], cells[1::2], strict=True), strict=True):
            if int(percent) not in loads:
                continue
            for share, text in zip(backlog.shares(server, int(percent) / 100, stretches), said, strict=True):
                expected = min(max(float(text) / 100, 0.01), 0.99)
                spread = math.sqrt(expected * (1 - expected) / stretches)
                assert share == pytest.approx(expected, abs=4 * spread), f"{server} at {percent} %"


@pytest.mark.long
def test_a_search_tries_rates_until_the_bounds_break_and_stays_below(tmp_path: Path) -> None:
    with serving(Answers(first_s=0.02), one_at_a_time=True) as server:  # takes at most 50 a second
        ran = load(
            tmp_path,
            server.url,
            scenario="search",
            ttft_bound_s=0.3,
            percent=80.0,
            requests=32,
            rate=25.0,
            resolution=0.5,
            output_tokens=1,
        )
    assert (ran.code, ran.errors, ran.reading.problems) == (0, "", ())
    rates, kept = (next(s.y for s in ran.reading.series if s.name == name) for name in ("rate", "kept"))
    too_high = min(rate for rate, good in zip(rates, kept, strict=True) if not good)
    found = ran.figure("max_rate")
    assert found == max(r for r, good in zip(rates, kept, strict=True) if good and r < too_high)
    assert too_high / found <= 1.5
    patterns: dict[int, list[float]] = {}
    for request in ran.requests:
        patterns.setdefault(request["stretch"], []).append(request["due_s"] * rates[request["stretch"] - 1])
    assert len(patterns) == len(rates)
    for pattern in patterns.values():
        assert pattern == pytest.approx(patterns[1], rel=1e-3), "the same arrivals, faster or slower"
    # 31 of 32 in time: the last of them waits for 30 before it, 20 ms each, less the time they took to come.
    assert found < 150
    assert ran.fact("validity") == "VALID"


class Queue:
    """A server in virtual time, one request after the other; the same arrivals, faster at a higher rate."""

    def __init__(self, llm_load: Any, service_s: float, requests: int, seed: int = 5) -> None:
        self.llm_load, self.service_s, self.stretches = llm_load, service_s, 0
        self.options = argparse.Namespace(max_failed=0.0)
        self.requests, self.seed = requests, seed

    async def arrivals(self, rate: float) -> Any:
        self.stretches += 1
        free = 0.0
        requests = []
        arrivals = self.llm_load.poisson_arrivals(rate, self.requests, random.Random(self.seed))
        for number, due in enumerate(arrivals):
            free = max(free, due) + self.service_s
            said = {"sent_s": due, "first_s": free, "last_s": free, "output_tokens": 1}
            requests.append(self.llm_load.Request(self.stretches, number, due, 1, 1, **said))
        return self.llm_load.Stretch(requests, rate)


@pytest.mark.parametrize("begin", [0.5, 40.0, 700.0])
@pytest.mark.parametrize("resolution", [0.02, 0.2])
def test_a_search_comes_as_close_as_it_was_asked_to(begin: float, resolution: float) -> None:
    queue, bounds = Queue(llm_load, service_s=0.02, requests=500), LatencyBounds(0.2, None, 90.0)
    rank = llm_client.Rank()
    found = asyncio.run(llm_client.search(rank, begin, resolution, queue, bounds))
    assert not found.broken(bounds)
    assert asyncio.run(queue.arrivals(found.rate * (1 + resolution))).broken(bounds)
    assert 25 < found.rate < 50


def test_searches_begin_evenly_over_their_last_step_and_each_at_its_own_rate() -> None:
    starts = [llm_client.random_start(4.0, 0.01, f"{seed} http://gpu7:8000/v1") for seed in range(2000)]
    last_step = 2 ** (1 / 128)  # the first power of 2 by halves of its exponent within 1 %: 64 is above it
    assert 2 ** (1 / 128) < 1.01 < 2 ** (1 / 64)
    shares = sorted(math.log(start / 4.0) / math.log(last_step) + 0.5 for start in starts)
    assert all(0 <= share < 1 for share in shares)
    assert max(abs(share - number / 2000) for number, share in enumerate(shares)) < 1.95 / math.sqrt(2000)
    assert starts[7] == llm_client.random_start(4.0, 0.01, "7 http://gpu7:8000/v1")
    assert starts[7] != llm_client.random_start(4.0, 0.01, "7 http://gpu8:8000/v1")


@pytest.mark.long
def test_equal_servers_do_not_give_identical_values() -> None:
    """The same arrivals on both sides and in all repeats: only where each search begins differs."""
    found = []
    for repeat in range(10):
        queue, begin = Queue(llm_load, 0.02, 500), llm_client.random_start(4.0, 0.01, str(repeat))
        stretch = asyncio.run(
            llm_client.search(llm_client.Rank(), begin, 0.01, queue, LatencyBounds(0.2, None, 90.0))
        )
        found.append(stretch.rate)
    assert len(set(found)) == 10
    assert max(found) / min(found) < 1.01


@pytest.mark.parametrize(
    ("service_s", "told"), [(9.0, "no rate meets the bounds"), (0.0, "start from a higher")]
)
def test_a_search_without_an_end_says_so(service_s: float, told: str) -> None:
    queue = Queue(llm_load, service_s, requests=100)
    with pytest.raises(SystemExit, match=told):
        asyncio.run(llm_client.search(llm_client.Rank(), 1.0, 0.1, queue, LatencyBounds(0.2, None, 90.0)))


def test_a_server_that_dies_in_a_search_ends_it(tmp_path: Path) -> None:
    with serving(later(Answers(status=500, says="dead"))) as server:
        ran = load(tmp_path, server.url, scenario="search", ttft_bound_s=1.0, percent=50.0)
    assert ran.code == 1
    assert re.search(r"the server stopped answering after [\d.]+ requests/s: HTTP 500", ran.errors)
    assert '"unit"' not in ran.log


@pytest.mark.parametrize(("percent", "late"), [(99.0, 0), (99.0, 1), (99.0, 30), (90.0, 0), (90.0, 7)])
def test_the_fewest_requests_are_those_of_the_binomial_test(percent: float, late: int) -> None:
    need = fewest(late, percent)
    chance_late = 1 - percent / 100
    assert binom.cdf(late, need, chance_late) <= 0.01 < binom.cdf(late, need - 1, chance_late)
    assert not proves(need - 1, late, percent)


def test_the_fewest_requests_are_those_that_mlperf_publishes() -> None:
    assert doctest.testmod(service_level) == (0, 5), "as its own page says"
    assert (fewest(1, 90), fewest(1, 99)) == (64, 662), "SingleStream, MultiStream"


def test_a_server_exactly_at_its_bound_is_called_valid_in_one_of_a_hundred_runs() -> None:
    chance = random.Random(7)
    valid = sum(proves(500, sum(chance.random() < 0.01 for _ in range(500)), 99.0) for _ in range(2000))
    assert 0 < valid / 2000 < 0.02


def test_a_request_that_failed_kept_no_bound_and_a_bound_that_is_not_given_is_kept() -> None:
    bounds = LatencyBounds(first_token_s=1.0, per_token_s=None, percent=99.0)
    assert not bounds.kept(None, 0.1)
    assert bounds.kept(1.0, None)
    assert not bounds.kept(1.01, 0.0)


def test_a_percentile_is_one_of_the_values_and_none_is_an_error() -> None:
    assert [percentile([3.0, 1.0, 2.0], percent) for percent in (1, 34, 67, 99)] == [1.0, 2.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_each_system_names_its_own_server_and_every_request_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = {**SMALL, "model": "tiny", "scenario": "users", "users": 2}
    suite = {"suite": "chat", "workload": "llm-serving", "params": params, "systems": ["near", "far"]}
    Path("suite.yaml").write_text(json.dumps(suite | {"repeats": 2, "baseline": "near"}))
    with serving(Answers(0.01, 0.001)) as near, serving(Answers(0.04, 0.004)) as far:
        systems = {
            name: {"launcher": "local", "env": {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": SECRET}}
            for name, server in (("near", near), ("far", far))
        }
        Path("systems.yaml").write_text(json.dumps(systems))
        ran = CliRunner().invoke(assay, ["run", "suite.yaml"])
    assert ran.exit_code == 0, ran.output
    asked = 2 * (BEFORE + SMALL["requests"])
    assert len(near.asked) == len(far.asked) == asked
    kept = list(Path("runs").rglob("outputs/requests.jsonl"))
    assert len(kept) == 4
    assert all(len(path.read_text().splitlines()) == 21 for path in kept)
    files = [path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in files)


DOCUMENT = (ROOT / "docs" / "how-to" / "llm-serving.md").read_text()


def test_the_documents_suite_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suite, systems = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    Path("suite.yaml").write_text(suite)
    Path("systems.yaml").write_text(systems)
    ran = CliRunner().invoke(assay, ["plan", "suite.yaml", "--json"])
    assert ran.exit_code == 0, ran.output
    trials = json.loads(ran.stdout)["trials"]
    assert len(trials) == 7 * 2 * 5


def test_the_documents_bounds_are_those_of_loadgen() -> None:
    loadgen = find_spec("mlperf_loadgen")
    require("loadgen", loadgen is not None, "mlcommons-loadgen holds MLPerf's bounds")
    assert loadgen is not None
    assert loadgen.origin is not None
    held = Path(loadgen.origin).read_bytes()
    rows = re.findall(r"^\| ([\w-]+) \| (\d+) \| (\d+) \|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == 11
    for model, first, per_token in rows:
        assert f"\n{model}.Server.ttft_latency = {first}\n".encode() in held
        assert f"\n{model}.Server.tpot_latency = {per_token}\n".encode() in held


@pytest.fixture(scope="module")
def transformers_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, int]]:
    """`transformers serve` with a tiny random Llama: its URL, its model's name, its process."""
    needed = ("torch", "transformers", "accelerate", "fastapi", "openai", "uvicorn")
    require("torch", all(map(find_spec, needed)), f"`transformers serve` needs {', '.join(needed)}")
    folder = tmp_path_factory.mktemp("llama")
    env = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    tiny = SUPPORT / "tiny_llama.py"
    subprocess.run([sys.executable, tiny, folder], env=env, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--device", "cpu"]
    log = folder / "serve.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [*serve, "--host", "127.0.0.1", "--port", str(port)], env=env, stdout=out, stderr=out
        )
    try:
        wait_for_health(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1", str(folder), server.pid
    finally:
        server.kill()
        server.wait()


def wait_for_health(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as reply:
            assert reply.status == 200
            return
        time.sleep(0.2)
    pytest.fail(log.read_text())


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("endpoint", "scenario"),
    [
        ("completions", "server"),
        ("chat", "users"),
    ],
)
def test_a_real_server_is_measured(
    tmp_path: Path, transformers_server: tuple[str, str, int], endpoint: str, scenario: str
) -> None:
    url, model, _ = transformers_server
    asked = {"input_tokens": 32, "output_tokens": 8, "rate": 4.0, "users": 2, "requests": 12}
    ran = load(tmp_path, url, model=model, endpoint=endpoint, scenario=scenario, **asked)
    assert (ran.code, ran.errors, ran.reading.problems) == (0, "", ())
    assert ran.fact("model_served") in (model, f"{model}@main")  # as its version writes it
    assert ran.fact("mean_input_tokens") == 32
    assert ran.fact("mean_output_tokens") == 8
    assert 0 < ran.figure("first_token", 50.0) < ran.figure("latency", 50.0)
    assert ran.figure("token_throughput") == pytest.approx(8 * ran.figure("throughput"))


@pytest.mark.long
@pytest.mark.torch
def test_a_search_on_a_real_server_ends_where_its_own_requests_break_the_bounds(
    tmp_path: Path, transformers_server: tuple[str, str, int]
) -> None:
    """The bound is eight times what a request takes alone: one at a time keeps it, 24 at once can't."""
    url, model, _ = transformers_server
    asked: dict[str, Any] = {"model": model, "input_tokens": 32, "output_tokens": 8, "resolution": 1.0}
    alone = load(tmp_path, url, **asked, scenario="users", users=1, requests=8).figure("latency", 50.0)
    bounds = LatencyBounds(first_token_s=8 * alone, per_token_s=None, percent=60.0)
    asked |= {"requests": 24, "rate": 0.5 / alone, "ttft_bound_s": 8 * alone, "percent": 60.0}
    ran = load(tmp_path, url, **asked, scenario="search")
    assert (ran.code, ran.errors, ran.reading.problems) == (0, "", ())
    rates, kept = (next(s.y for s in ran.reading.series if s.name == name) for name in ("rate", "kept"))
    for stretch, (rate, good) in enumerate(zip(rates, kept, strict=True), 1):
        requests = [request for request in ran.requests if request["stretch"] == stretch]
        late = sum(not bounds.kept(r["first_s"] - r["due_s"], 0.0) for r in requests)
        grows = backlog_growth([r["due_s"] for r in requests], [r["last_s"] - r["due_s"] for r in requests])
        valid = proves(24, late, 60.0) and not grows
        assert (len(requests), valid) == (24, bool(good)), f"at {rate}"
    found = ran.figure("max_rate")
    assert found in [rate for rate, good in zip(rates, kept, strict=True) if good]
    assert found < min(rate for rate, good in zip(rates, kept, strict=True) if not good) <= 2 * found * 1.001


@pytest.mark.long
@pytest.mark.torch
def test_a_real_server_that_is_killed_ends_the_run_with_its_cause(
    tmp_path: Path, transformers_server: tuple[str, str, int]
) -> None:
    url, model, pid = transformers_server
    killer = threading.Timer(2.0, os.kill, (pid, signal.SIGKILL))
    killer.start()
    ran = load(tmp_path, url, model=model, scenario="users", output_tokens=500, min_duration_s=60.0)
    killer.join()
    assert ran.code == 1
    assert re.search(
        r"requests failed.*(the stream broke after|the connection broke|can't connect)", ran.errors
    )
    assert '"unit"' not in ran.log


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"url": "gpu7:8000"}, "write one like http://gpu7:8000/v1"),
        ({"url": "http://gpu7:80000/v1"}, "write one like http://gpu7:8000/v1"),
        ({"url": "http://gpu7:8000/v1/chat/completions"}, "includes the endpoint"),
        ({"url": "http://me:pass@gpu7/v1"}, "api_key_env"),
        ({"scenario": "search"}, "give ttft_bound_s, tpot_bound_s, or both"),
        ({"tokens": "none", "tpot_bound_s": 0.1}, "needs a token count"),
        ({"ttft_bound_s": 1.0, "requests": 458}, "at least 459"),
        ({"input_tokens": "about 20"}, "pattern"),
        ({"output_tokens": "uniform 9 2"}, "9 is greater than 2"),
        ({"output_tokens": 0}, "greater than or equal to 1"),
    ],
)
def test_what_can_not_be_measured_is_refused_with_what_would_do(
    wrong: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        WORKLOAD.params(**({"model": "tiny"} | wrong))


def test_the_client_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    files = WORKLOAD.task(WORKLOAD.params(model="tiny"), Shape(1, 1), 1).files
    payload_files.lay_out(tmp_path, {file.name: file.data for file in files})
    code = "; ".join(f"import {payload_files.module_of(file.name)}" for file in files)
    subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("url", ["", "gpu7:8000", "http://gpu7:80000/v1", "http://me:secret@gpu7/v1"])
def test_the_client_alone_refuses_an_address_that_is_none(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "assay_payloads.serving.llm_client", "--model", "tiny"],
        env={"OPENAI_BASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "set --url or OPENAI_BASE_URL, like http://gpu7:8000/v1" in ran.stderr
    assert "secret" not in ran.stderr


def test_one_client_is_one_process() -> None:
    with pytest.raises(InputError, match="shape 1x1"):
        WORKLOAD.task(WORKLOAD.params(model="tiny"), Shape(1, 2), 1)


def test_the_scenario_decides_what_comes_first() -> None:
    asked = {
        scenario: WORKLOAD.params(model="m", scenario=scenario, ttft_bound_s=1.0)
        for scenario in ("server", "users", "search")
    }
    first = {scenario: WORKLOAD.reader.metrics(params)[0].name for scenario, params in asked.items()}
    assert first == {"server": "first_token", "users": "token_throughput", "search": "max_rate"}

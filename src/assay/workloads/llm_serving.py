"""An LLM server under load: time to first token, time per output token, tokens per second."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from assay.errors import InputError, Problem
from assay.formats.figures import MOST_PROBLEMS
from assay.formats.reader import Params, Reader
from assay.records import Metric, Reading, Shape, Task, TaskFile
from assay.workloads import payload_log
from assay.workloads.workload import Workload, absolute, content, example, program_task

CONFIDENCE = 0.99  # of LoadGen's early stopping, by which the client calls a run VALID
LENGTHS = "lengths.csv"  # the table's name next to the client
REQUESTS = "requests.jsonl"  # the times of every request, kept next to the log

MAX_RATE = Metric(
    "max_rate", "requests/s", "higher", "highest arrival rate that meets the bounds", scales=False
)
THROUGHPUT = Metric("throughput", "requests/s", "higher", "requests answered per second", scales=False)
TOKENS = Metric(
    "token_throughput", "tokens/s", "higher", "output tokens per second of all requests", scales=False
)
GOODPUT = Metric("goodput", "requests/s", "higher", "requests per second that met every bound", scales=False)
FIRST_TOKEN = Metric(
    "first_token",
    "s",
    "lower",
    "from a request's scheduled time to its first token, at a percentile",
    scales=False,
)
PER_TOKEN = Metric(
    "time_per_token",
    "s",
    "lower",
    "time from the first token to the last, per token after the first, at a percentile",
    scales=False,
)
LATENCY = Metric(
    "latency",
    "s",
    "lower",
    "from a request's scheduled time to its last token, at a percentile",
    scales=False,
)

_LENGTHS = r"^(\d+|uniform \d+ \d+|normal \d+ [\d.]+|lognormal \d+ [\d.]+)$"
Lengths = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=_LENGTHS)]


class LlmServingParams(Params):
    """Load on any server with OpenAI's completions API (vLLM, SGLang, TensorRT-LLM, llama.cpp, TGI, …).

    With a server on this machine, about 10 s: `{url: http://127.0.0.1:8000/v1, model: tiny, scenario: users,
    users: 2, requests: 20, min_duration_s: 0, input_tokens: 16, output_tokens: 16}`.
    """

    model_config = example(
        url="http://gpu7:8000/v1",
        model="meta-llama/Llama-3.1-8B-Instruct",
        scenario="search",
        rate=4.0,
        ttft_bound_s=2.0,
        tpot_bound_s=0.1,
        input_tokens="lognormal 500 0.8",
        output_tokens=128,
        extra={"ignore_eos": True},
    )

    url: str | None = Field(
        None,
        description="URL of the API as the client reaches it: `http://gpu7:8000/v1`; default: "
        "OPENAI_BASE_URL in the client's environment, so that each system can name its own server.",
    )
    model: str = Field(min_length=1, description="The model's name on the server.")
    endpoint: Literal["completions", "chat"] = Field(
        "completions", description="/completions with a prompt, or /chat/completions with one message."
    )
    scenario: Literal["server", "users", "search"] = Field(
        "server",
        description="server: Poisson arrivals at `rate`, as in MLPerf's Server scenario; users: `users` "
        "users, each waiting for its answer; search: the highest rate that meets the bounds, starting from "
        "`rate`.",
    )
    rate: float = Field(1.0, gt=0, description="Requests per second; in a search, roughly where it starts.")
    users: int = Field(8, ge=1, description="Concurrent users, in the scenario users.")
    requests: int = Field(500, ge=1, description="Minimum number of requests; in a search, at each rate.")
    min_duration_s: float = Field(60.0, ge=0, description="Minimum duration; MLPerf requires 600.")
    warmup: int = Field(8, ge=0, description="Warm-up requests, sent all at once and not counted.")
    input_tokens: Lengths = Field(
        128, description="Tokens in a prompt: `128`, `uniform 64 256`, `normal 128 32`, `lognormal 128 0.5`."
    )
    output_tokens: Lengths = Field(128, description="Maximum tokens in an answer, in the same forms.")
    lengths: str | None = Field(
        None,
        description="Instead of these two: a CSV file with the columns input_tokens and output_tokens; each "
        "request takes one row. A relative path is relative to the suite's directory.",
    )
    tokens: Literal["server", "pieces", "none"] = Field(
        "server",
        description="How output tokens are counted: by the server (`usage`), by the client as pieces of the "
        "stream (for servers that send one token at a time), or not at all: then there are no figures per "
        "token.",
    )
    ttft_bound_s: float | None = Field(None, gt=0, description="Bound on the time to first token.")
    tpot_bound_s: float | None = Field(None, gt=0, description="Bound on the time per output token.")
    percent: float = Field(
        99.0, gt=0, lt=100, description="Percentage of requests that must meet the bounds."
    )
    resolution: float = Field(
        0.01,
        gt=0,
        description="Precision of the search: the next higher rate tried is at most this much higher. Use at "
        "most a third of the suite's margin.",
    )
    max_failed: float = Field(0.0, ge=0, lt=1, description="Share of requests that may fail.")
    timeout_s: float = Field(
        600.0, gt=0, description="Time limit for one answer; after it, the request has failed."
    )
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        description="Environment variable of the client that holds the API key, if there is one.",
    )
    extra: dict[str, Any] = Field(
        {}, description="Fields added to every request: `{ignore_eos: true}` if the server supports it."
    )

    @field_validator("url")
    @classmethod
    def _is_an_address_without_secrets(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ValueError(
                "the URL is shown in every report; put the key into the variable that api_key_env names"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or not _is_port(parts):
            raise ValueError(f"{url!r} is not the URL of an API; write one like http://gpu7:8000/v1")
        if parts.path.rstrip("/").endswith("/completions"):
            raise ValueError(f"{url!r} includes the endpoint; write a URL like http://gpu7:8000/v1")
        return url

    @field_validator("input_tokens", "output_tokens")
    @classmethod
    def _is_a_range(cls, lengths: int | str) -> int | str:
        kind, *numbers = str(lengths).split()
        if kind == "uniform" and int(numbers[0]) > int(numbers[1]):
            raise ValueError(
                f"{lengths}: {numbers[0]} is greater than {numbers[1]}; write the smaller number first"
            )
        return lengths

    @field_validator("lengths")
    @classmethod
    def _is_absolute(cls, lengths: str | None, info: ValidationInfo) -> str | None:
        return None if lengths is None else absolute(lengths, info)

    @model_validator(mode="after")
    def _bounds_can_be_shown(self) -> Self:
        bounds = (self.ttft_bound_s, self.tpot_bound_s)
        if self.tokens == "none" and self.tpot_bound_s is not None:
            raise ValueError("tpot_bound_s needs a token count; write tokens: server or pieces")
        if self.scenario == "search" and bounds == (None, None):
            raise ValueError("a search needs bounds; give ttft_bound_s, tpot_bound_s, or both")
        least = math.ceil(math.log(1 - CONFIDENCE) / math.log(self.percent / 100))
        if self.scenario != "users" and bounds != (None, None) and self.requests < least:
            raise ValueError(
                f"{self.requests} requests can't show that {self.percent:g} % are in time; write at least "
                f"{least}"
            )
        return self


def _is_count(text: str | None) -> bool:
    return text is not None and text.strip().isdecimal() and int(text) > 0


def _is_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _metrics(params: LlmServingParams) -> tuple[Metric, ...]:
    """The scenario's main figure first: the highest rate, latency at a rate, or tokens/s of the users."""
    counted = params.tokens != "none"
    between = (PER_TOKEN,) if counted and params.output_tokens != 1 else ()  # a single token has no next
    latencies = (FIRST_TOKEN, *between, LATENCY)
    rates = (*([TOKENS] if counted else []), THROUGHPUT)
    bounded = params.ttft_bound_s is not None or params.tpot_bound_s is not None
    good = (GOODPUT,) if bounded else ()
    if params.scenario == "search":
        return (MAX_RATE, *latencies, *rates, *good)
    if params.scenario == "users":
        return (*rates, *latencies, *good)
    return (*latencies, *rates, *good)


def _task(params: LlmServingParams, shape: Shape, seed: int) -> Task:
    if shape.ranks > 1:
        raise InputError("llm-serving is one client, whatever the server runs on; use shape 1x1")
    travels = params.model_copy(update={"lengths": params.lengths and LENGTHS})
    task = program_task("assay_payloads.serving.llm_client", travels, seed=seed)
    tables = (TaskFile(LENGTHS, _lengths(params.lengths)),) if params.lengths else ()
    return replace(task, files=(*task.files, *tables), outputs=(REQUESTS,))


def _lengths(path: str) -> bytes:
    """The table to send with the client. Raises InputError if a row does not hold two lengths."""
    data = content(path)
    rows = list(csv.DictReader(data.decode("utf-8-sig", errors="replace").splitlines()))
    if not rows or not {"input_tokens", "output_tokens"} <= rows[0].keys():
        raise InputError(f"{path}: no rows with the columns input_tokens and output_tokens")
    wrong = [
        Problem(f"{path}:{line}", "input_tokens and output_tokens must be integers, at least 1")
        for line, row in enumerate(rows, 2)
        if not (_is_count(row["input_tokens"]) and _is_count(row["output_tokens"]))
    ]
    if wrong:
        raise InputError(wrong[:MOST_PROBLEMS])
    return data


def _read(logs: Mapping[str, Path], params: LlmServingParams) -> Reading:
    """What the log reports. A run that missed its bounds gives no figure."""
    reading = payload_log.read(logs, _metrics(params))
    if reading.facts.get("validity") != "INVALID":
        return reading
    problem = f"INVALID: {reading.facts.get('invalid_because')}"
    return replace(reading, problems=(problem, *reading.problems))


LLM_SERVING = Workload(
    reader=Reader("llm-serving", LlmServingParams, _metrics, _read),
    about="load on an LLM server (OpenAI's API): time to first token, time per output token, tokens/s",
    task=_task,
    timed_s=lambda params: params.min_duration_s if params.scenario != "search" else None,
)

"""Load on a completions server: Poisson arrivals or concurrent users, recording every request's times."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any, TextIO

from assay_payloads.measuring.service_level import LatencyBounds, backlog_growth
from assay_payloads.serving.completion import Completion, Endpoint, FailedRequestError

PATHS = {"completions": "/completions", "chat": "/chat/completions"}
# Common words: mostly one token each in today's vocabularies. The actual ratio is measured.
WORDS = tuple(
    """
    time year people way day man thing woman life child world school state family student group country
    problem hand part place case week company system program question work government number night point
    home water room mother area money story fact month lot right study book eye job word business issue
    """.split()  # noqa: SIM905
)
FEW, MANY = 1, 3  # repetitions of all words in the two prompts that measure tokens per word
TICK_S = 0.01


class Lengths:
    """Numbers of tokens: `128`, `uniform 64 256`, `normal 128 32`, `lognormal 128 0.5` (median and sigma)."""

    def __init__(self, text: str) -> None:
        kind, *numbers = text.split() if not text.isdecimal() else ["always", text]
        self.kind, self.numbers = kind, [float(number) for number in numbers]
        if kind not in ("always", "uniform", "normal", "lognormal") or len(numbers) != 1 + (kind != "always"):
            raise ValueError(text)
        if self.numbers[0] < 1 or (kind == "uniform" and self.numbers[1] < self.numbers[0]):
            raise ValueError(text)

    def draw(self, chance: random.Random) -> int:
        """A drawn length, at least 1."""
        first, *second = self.numbers
        if self.kind == "uniform":
            return chance.randint(int(first), int(second[0]))
        if self.kind == "normal":
            return max(1, round(chance.gauss(first, second[0])))
        if self.kind == "lognormal":
            return max(1, round(chance.lognormvariate(math.log(first), second[0])))
        return int(first)


@dataclass
class Request:
    """One request; times in seconds from the start of its stretch, None if it never got that far.

    due_s          when it should be sent; latency counts from here
    asked_prompt_tokens, asked_output_tokens  requested length of its prompt, and maximum length of its answer
    output_tokens  that arrived; None if unknown
    error          why it failed; "" if it did not
    """

    stretch: int
    number: int
    due_s: float
    asked_prompt_tokens: int
    asked_output_tokens: int
    sent_s: float | None = None
    first_s: float | None = None
    last_s: float | None = None
    pieces: int = 0
    longest_gap_s: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish: str | None = None
    error: str = ""

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from when it was due to the first token; None if it failed."""
        return None if self.error or self.first_s is None else self.first_s - self.due_s

    @property
    def latency(self) -> float | None:
        """Seconds from when it was due to the last token; None if it failed."""
        return None if self.error or self.last_s is None else self.last_s - self.due_s

    @property
    def time_per_token(self) -> float | None:
        """Seconds from the first token to the last, per token after the first; 0 for a single token."""
        if self.error or self.first_s is None or self.last_s is None or not self.output_tokens:
            return None
        return (self.last_s - self.first_s) / max(1, self.output_tokens - 1)


@dataclass
class Stretch:
    """Requests at one rate or from a number of users, from the start to the last answer."""

    requests: list[Request]
    rate: float | None  # requested, requests per second
    lags: list[float] = field(default_factory=list)

    @property
    def done(self) -> list[Request]:
        """Those that were answered."""
        return [request for request in self.requests if not request.error]

    @property
    def seconds(self) -> float:
        """From its start to its last token."""
        return max(request.last_s or 0.0 for request in self.done)

    @property
    def backlog_growth(self) -> float:
        """Seconds of latency that each second of load adds; 0.0 if no growth is shown."""
        due = [request.due_s for request in self.requests]
        return backlog_growth(due, [request.latency for request in self.requests])

    def broken(self, bounds: LatencyBounds) -> list[str]:
        """Why it is not VALID: bounds that it doesn't prove, a growing backlog.

        A failed request counts as late.
        """
        first = [request.time_to_first_token for request in self.requests]
        late = bounds.broken(first, [request.time_per_token for request in self.requests])
        growth = self.backlog_growth
        if not growth:
            return late
        return [
            *late,
            f"the backlog grows: each second of load adds {growth:.2g} s of latency, so the server keeps up "
            f"with about {1 / (1 + growth):.0%} of this rate",
        ]


class Client:
    """Sends the requests that the options describe and records their times."""

    def __init__(self, options: argparse.Namespace, file: TextIO) -> None:
        key = os.environ.get(options.api_key_env) or None
        self.endpoint = Endpoint(options.url, PATHS[options.endpoint], options.timeout_s, key)
        self.options, self.file = options, file
        self.words_per_token, self.words_before = 1.0, 0.0
        # New for each run: a server's cache would answer the same prompts again.
        self._wording = random.Random()  # noqa: S311  (no secret is made of it)
        self.stretches = 0
        self._failed = 0  # in the current stretch

    async def begin(self) -> str | None:
        """Learn from two requests how many tokens a word has, then warm up; returns the model that answered.

        Raises FailedRequestError.
        """
        chance = self._chance("calibration")
        few, many = [
            await self.endpoint.stream(f"calibration-{times}", self._body(WORDS * times, 2))
            for times in (FEW, MANY)
        ]
        if self.options.tokens == "server" and many.output_tokens is None:
            raise FailedRequestError(
                "the server reports no usage, so tokens can't be counted; if it sends one token per "
                "piece, set `tokens: pieces`, otherwise `tokens: none`"
            )
        if few.prompt_tokens and many.prompt_tokens and many.prompt_tokens > few.prompt_tokens:
            added_words = len(WORDS) * (MANY - FEW)
            self.words_per_token = added_words / (many.prompt_tokens - few.prompt_tokens)
            self.words_before = len(WORDS) * FEW - few.prompt_tokens * self.words_per_token
        warm = [Request(0, number, 0.0, *self._lengths(chance)) for number in range(self.options.warmup)]
        start = time.perf_counter()
        await asyncio.gather(*(self._send(request, start) for request in warm))
        for request in warm:
            if request.error:
                raise FailedRequestError(f"warm-up: {request.error}")
        return many.model

    async def arrivals(self, rate: float) -> Stretch:
        """Requests of a Poisson process, each sent when it is due, whatever happened to those before.

        Every stretch has the same pattern of arrivals and lengths, only faster or slower, so that the rates
        of a search differ in nothing else.
        """
        self._begin_stretch()
        chance = self._chance("lengths")
        stretch = Stretch([], rate)
        count = max(self.options.requests, math.ceil(rate * self.options.min_duration_s))
        arrivals = poisson_arrivals(rate, count, self._chance("arrivals"))
        start = time.perf_counter()
        watch = asyncio.create_task(_watch(stretch))
        under_way = []
        for due in arrivals:
            lengths = self._lengths(chance)
            await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
            if self._hopeless:
                break
            stretch.requests.append(Request(self.stretches, len(stretch.requests), due, *lengths))
            under_way.append(asyncio.create_task(self._send(stretch.requests[-1], start)))
        await asyncio.gather(*under_way)
        watch.cancel()
        return stretch

    async def users(self, users: int) -> Stretch:
        """Requests of concurrent users, each of whom waits for the answer to the previous one."""
        self._begin_stretch()
        chance = self._chance("users")
        stretch, start = Stretch([], None), time.perf_counter()

        async def user() -> None:
            while not self._hopeless:
                due = time.perf_counter() - start
                if len(stretch.requests) >= self.options.requests and due >= self.options.min_duration_s:
                    return
                number, lengths = len(stretch.requests), self._lengths(chance)
                stretch.requests.append(Request(self.stretches, number, due, *lengths))
                await self._send(stretch.requests[-1], start)

        watch = asyncio.create_task(_watch(stretch))
        await asyncio.gather(*(user() for _ in range(users)))
        watch.cancel()
        return stretch

    def _begin_stretch(self) -> None:
        self.stretches += 1
        self._failed = 0

    @property
    def _hopeless(self) -> bool:
        """Whether more failed than allowed: then no further requests are sent."""
        return bool(self._failed > self.options.max_failed * self.options.requests)

    def _lengths(self, chance: random.Random) -> tuple[int, int]:
        """Tokens of a prompt and of its answer."""
        if self.options.lengths:
            row: tuple[int, int] = chance.choice(self.options.lengths)
            return row
        return self.options.input_tokens.draw(chance), self.options.output_tokens.draw(chance)

    def _chance(self, *purpose: object) -> random.Random:
        """A separate random generator for each purpose, so that the order of answers changes nothing."""
        return random.Random(f"{self.options.seed} {purpose}")  # noqa: S311  (no secret is made of it)

    async def _send(self, request: Request, start: float) -> None:
        """Send one request, and record its outcome."""
        tokens = request.asked_prompt_tokens
        count = max(1, round(tokens * self.words_per_token + self.words_before))
        prompt_words = self._wording.choices(WORDS, k=count)
        try:
            answer = await self.endpoint.stream(
                f"{request.stretch}-{request.number}", self._body(prompt_words, request.asked_output_tokens)
            )
        except FailedRequestError as error:
            request.error = str(error)
        else:
            self._note(request, answer, start)
        self._failed += bool(request.error)
        record = {k: round(v, 6) if isinstance(v, float) else v for k, v in asdict(request).items()}
        self.file.write(json.dumps(record) + "\n")

    def _note(self, request: Request, answer: Completion, start: float) -> None:
        request.sent_s = answer.sent - start
        request.pieces, request.longest_gap_s = answer.pieces, answer.longest_gap_s
        request.prompt_tokens, request.finish = answer.prompt_tokens, answer.finish
        counted = {"server": answer.output_tokens, "pieces": answer.pieces, "none": None}
        request.output_tokens = counted[self.options.tokens]
        if answer.first is None or answer.last is None:
            request.error = f"the answer contained no text; its finish reason: {answer.finish}"
            return
        request.first_s, request.last_s = answer.first - start, answer.last - start
        if self.options.tokens == "server" and request.output_tokens is None:
            request.error = "the server reported no usage"

    def _body(self, prompt_words: Sequence[str], tokens: int) -> dict[str, Any]:
        """A request's JSON: a prompt of these words, and the maximum tokens of the answer."""
        prompt = " ".join(prompt_words)
        chat = {"messages": [{"role": "user", "content": prompt}]}
        content = chat if self.options.endpoint == "chat" else {"prompt": prompt}
        common = {"model": self.options.model, "max_tokens": tokens, "temperature": 0.0, "stream": True}
        usage = {"stream_options": {"include_usage": True}} if self.options.tokens == "server" else {}
        return {**common, **usage, **content, **self.options.extra}


def poisson_arrivals(rate: float, count: int, chance: random.Random) -> list[float]:
    """Times in seconds at which `count` requests are due: a Poisson process, conditioned on that count.

    They take count / rate seconds. If their number were random, 600 requests would arrive at a rate that
    is 4 % off, more than the difference between two servers that a search must detect.
    """
    gaps = [chance.expovariate(1.0) for _ in range(count + 1)]
    second = count / rate / sum(gaps)
    return [gap * second for gap in accumulate(gaps[:-1])]


async def _watch(stretch: Stretch) -> None:
    """Delay of this program itself: it can't record a time, or send, while it does something else."""
    while True:
        due = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        stretch.lags.append(max(0.0, time.perf_counter() - due))

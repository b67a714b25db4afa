"""Load on a server with OpenAI's completions API: time to first token, time per output token, tokens/s.

    python -m assay_payloads.serving.llm_client --url http://gpu7:8000/v1 --model llama --rate 4
    python -m assay_payloads.serving.llm_client --url http://gpu7:8000/v1 --model llama --scenario users \\
        --users 64
    python -m assay_payloads.serving.llm_client --url … --model … --scenario search --rate 4 \\
        --ttft-bound-s 2 --tpot-bound-s 0.2

server  requests arrive as in MLPerf's Server scenario: a Poisson process, whether or not the server keeps
        up. Latency counts from when a request was due, not from when it could be sent.
users   concurrent users, each of whom sends the next request when the last one was answered
search  the highest arrival rate that meets the bounds: doubled or halved starting near `rate`, then bisected

Every request's times go to requests.jsonl. Standard library only; the key comes only from the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import os
import random
import resource
from collections import Counter
from pathlib import Path
from statistics import fmean, median
from typing import Any
from urllib.parse import urlsplit

from assay_payloads.measuring.rank import Rank
from assay_payloads.measuring.service_level import PERCENTILE_RANK, LatencyBounds, fewest, percentile
from assay_payloads.serving.completion import FailedRequestError
from assay_payloads.serving.llm_load import PATHS, Client, Lengths, Stretch

FILE = "requests.jsonl"
PERCENTS = (50.0, 90.0, 99.0)
WINDOWS = 20  # points in the series of a run
SPAN = 256  # factor by which a search goes up and down from `rate`


async def measure(rank: Rank, options: argparse.Namespace, client: Client, bounds: LatencyBounds) -> None:
    """The requested scenario, and its figures."""
    try:
        model = await client.begin()
    except FailedRequestError as error:
        rank.fail(f"the first requests failed: {error}")
    for key in ("scenario", "url", "endpoint", "model", "seed", "ttft_bound_s", "tpot_bound_s", "percent"):
        rank.log(key, getattr(options, key))
    rank.log("model_served", model)
    rank.log("tokens_counted_by", {"server": "server", "pieces": "client", "none": "nobody"}[options.tokens])
    rank.log("words_per_token", client.words_per_token)
    if options.scenario == "search":
        begin = random_start(options.rate, options.resolution, f"{options.seed} {options.url}")
        rank.log("search_start_rate", begin)
        stretch = await search(rank, begin, options.resolution, client, bounds)
        rank.log("max_rate", stretch.rate, unit="requests/s", labels={})
    else:
        users = options.scenario == "users"
        stretch = await (client.users(options.users) if users else client.arrivals(options.rate))
        if too_many_failed(stretch, client):
            failed = f"{len(stretch.requests) - len(stretch.done)} of {len(stretch.requests)} requests failed"
            rank.fail(
                f"{failed}, but only {options.max_failed:.2%} are allowed: {'; '.join(causes(stretch))}"
            )
        for second, point in windows(stretch):
            rank.log("tracked_stats", point, seconds=second)
    figures(rank, stretch, bounds)
    account(rank, stretch)
    if bounds.given and options.scenario != "users":
        broken = stretch.broken(bounds)
        rank.log("backlog_growth", stretch.backlog_growth)
        rank.log("validity", "INVALID" if broken else "VALID")
        rank.log("invalid_because", "; ".join(broken))


def random_start(rate: float, resolution: float, seed: str) -> float:
    """The start of a search: `rate` times a random factor, log-uniform over the search's last step.

    From the same start, every search would end on the same few rates: equal servers would have
    identical values, and a true difference would be either zero or a whole step.
    """
    halvings = max(0, math.ceil(-math.log2(math.log2(1 + resolution))))
    step = 2 ** (1 / 2**halvings)
    return rate * step ** (random.Random(seed).random() - 0.5)  # noqa: S311  (no secret is made of it)


async def search(
    rank: Rank, rate: float, resolution: float, client: Client, bounds: LatencyBounds
) -> Stretch:
    """The stretch at the highest rate that meets the bounds; `resolution`: how close the next rate above is.

    More failures than allowed violate them too. A server that stops answering ends the run.
    """
    first, best, too_high = rate, None, None
    while True:
        stretch = await client.arrivals(rate)
        if len(stretch.done) < len(stretch.requests):
            try:
                await client.begin()
            except FailedRequestError as error:
                rank.fail(f"the server stopped answering after {rate:.4g} requests/s: {error}")
        why = stretch.broken(bounds) + (causes(stretch) if too_many_failed(stretch, client) else [])
        rank.log(
            "tracked_stats", {"rate": rate, "kept": int(not why)} | summary(stretch), step=client.stretches
        )
        if why:
            too_high = rate
        else:
            best = stretch
        if best is None and rate <= first / SPAN:
            rank.fail(f"no rate meets the bounds, down to {rate:.3g} requests/s: {'; '.join(why)}")
        if too_high is None and rate >= first * SPAN:
            rank.fail(f"the bounds are still met at {rate:.4g} requests/s: start from a higher --rate")
        if best is None or best.rate is None:
            rate /= 2
        elif too_high is None:
            rate *= 2
        elif too_high / best.rate > 1 + resolution:
            rate = (too_high * best.rate) ** 0.5
        else:
            return best


def causes(stretch: Stretch) -> list[str]:
    """Why requests failed, most common causes first."""
    counts = Counter(request.error for request in stretch.requests if request.error)
    shown = [f"{count} × {cause}" for cause, count in counts.most_common(3)]
    return [*shown, *([f"and {len(counts) - 3} more causes"] if len(counts) > 3 else [])]


def too_many_failed(stretch: Stretch, client: Client) -> bool:
    """Whether more requests failed than the allowed share, or all."""
    failed = len(stretch.requests) - len(stretch.done)
    return failed > client.options.max_failed * len(stretch.requests) or not stretch.done


def figures(rank: Rank, stretch: Stretch, bounds: LatencyBounds) -> None:
    """Print the figures of the stretch; percentiles are over answered requests."""
    for name, values in series_of(stretch).items():
        for percent in PERCENTS if values else ():
            rank.log(name, percentile(values, percent), unit="s", labels={"percentile": percent})
    for name, value in totals(stretch).items():
        rank.log(name, value, unit="tokens/s" if name == "token_throughput" else "requests/s", labels={})
    if bounds.given:
        good = sum(bounds.kept(r.time_to_first_token, r.time_per_token) for r in stretch.requests)
        rank.log("goodput", good / stretch.seconds, unit="requests/s", labels={})


def account(rank: Rank, stretch: Stretch) -> None:
    """Print the basis of the figures: the number of requests, their lengths, and this client's own delay."""
    done = stretch.done
    rank.log("percentile_rank", PERCENTILE_RANK)
    rank.log("requests", len(stretch.requests))
    rank.log("failed_requests", len(stretch.requests) - len(done))
    rank.log("seconds_measured", stretch.seconds)
    if stretch.rate is not None:
        rank.log("rate", stretch.rate)
        rank.log("rate_due", len(stretch.requests) / stretch.requests[-1].due_s)
    inputs = [r.prompt_tokens for r in done if r.prompt_tokens is not None]
    outputs = [r.output_tokens for r in done if r.output_tokens is not None]
    rank.log("mean_input_tokens", fmean(inputs) if inputs else None)
    rank.log("mean_output_tokens", fmean(outputs) if outputs else None)
    pieces = sum(r.pieces for r in done)
    rank.log("tokens_per_piece", sum(outputs) / pieces if outputs else None)
    cut = sum(r.output_tokens is not None and r.output_tokens < r.asked_output_tokens for r in done)
    rank.log("shorter_than_asked", cut)
    rank.log("longest_gap_s", max(r.longest_gap_s for r in done))
    rank.log("client_lag_p99_s", percentile(stretch.lags, 99) if stretch.lags else None)


def series_of(stretch: Stretch) -> dict[str, list[float]]:
    """Latencies in seconds by metric name; per token only if tokens were counted."""
    series = {
        "first_token": [request.time_to_first_token for request in stretch.done],
        "time_per_token": [request.time_per_token for request in stretch.done if request.output_tokens != 1],
        "latency": [request.latency for request in stretch.done],
    }
    return {name: [value for value in values if value is not None] for name, values in series.items()}


def totals(stretch: Stretch) -> dict[str, float]:
    """Requests and tokens per second over the whole stretch."""
    counted = [request.output_tokens for request in stretch.done]
    tokens = sum(count for count in counted if count is not None)
    rates = {"throughput": len(stretch.done) / stretch.seconds}
    return rates | ({"token_throughput": tokens / stretch.seconds} if None not in counted else {})


def summary(stretch: Stretch) -> dict[str, float]:
    """A stretch of a search as one point: throughput per second, and the 99th percentiles."""
    if not stretch.done:
        return {}
    tails = {f"{name}_p99": percentile(values, 99) for name, values in series_of(stretch).items() if values}
    return totals(stretch) | tails


def windows(stretch: Stretch) -> list[tuple[float, dict[str, float]]]:
    """Median time to first token by due time: if it grows, the server does not keep up."""
    width = max(request.due_s for request in stretch.requests) / WINDOWS
    medians = []
    for window in range(WINDOWS):
        low, high = window * width, (window + 1) * width
        inside = [r.time_to_first_token for r in stretch.done if low < r.due_s <= high]
        times = [value for value in inside if value is not None]
        if times:
            medians.append((high, {"first_token": median(times)}))
    return medians


def json_object(text: str) -> dict[str, Any]:
    """Fields added to every request."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is not a JSON object")
    return value


def table(path: str) -> list[tuple[int, int]]:
    """Tokens of prompts and their answers, row by row."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return [(int(row["input_tokens"]), int(row["output_tokens"])) for row in csv.DictReader(file)]
    except (OSError, KeyError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error!r}") from error


def is_address(url: str) -> bool:
    """Whether it is the URL of an API that a client may print."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc + str(parts.port)
        )
    except ValueError:  # an invalid port
        return False


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url", default=os.environ.get("OPENAI_BASE_URL"), help="URL of the API, like http://gpu7:8000/v1"
    )
    parser.add_argument("--model", required=True, help="the model's name on the server")
    parser.add_argument("--endpoint", choices=PATHS, default="completions")
    parser.add_argument("--scenario", choices=["server", "users", "search"], default="server")
    parser.add_argument(
        "--rate", type=float, default=1.0, help="requests per second; in a search, roughly where it starts"
    )
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500, help="minimum number of requests")
    parser.add_argument("--min-duration-s", type=float, default=60.0, help="minimum duration")
    parser.add_argument(
        "--warmup", type=int, default=8, help="warm-up requests, sent all at once and not counted"
    )
    parser.add_argument("--input-tokens", type=Lengths, default=Lengths("128"), help=Lengths.__doc__)
    parser.add_argument("--output-tokens", type=Lengths, default=Lengths("128"), help="as --input-tokens")
    parser.add_argument(
        "--lengths", type=table, help="CSV of input_tokens and output_tokens, one row per request"
    )
    parser.add_argument("--tokens", choices=["server", "pieces", "none"], default="server", help="who counts")
    parser.add_argument("--ttft-bound-s", type=float, help="bound on the time to first token")
    parser.add_argument("--tpot-bound-s", type=float, help="bound on the time per output token")
    parser.add_argument(
        "--percent", type=float, default=99.0, help="percentage of requests that must meet the bounds"
    )
    parser.add_argument("--resolution", type=float, default=0.01, help="precision of a search")
    parser.add_argument("--max-failed", type=float, default=0.0, help="share of requests that may fail")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="time limit for one answer")
    parser.add_argument("--api-key-env", default="OPENAI_API_KEY", help="environment variable with the key")
    parser.add_argument("--extra", type=json_object, default={}, help="JSON fields for every request")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of the command line, if they can be measured."""
    options = parser.parse_args()
    if not is_address(options.url or ""):
        parser.error("set --url or OPENAI_BASE_URL, like http://gpu7:8000/v1, without a user or password")
    bounded = options.ttft_bound_s is not None or options.tpot_bound_s is not None
    if not (options.rate > 0 and options.users > 0 and options.requests > 0 and options.resolution > 0):
        parser.error("--rate, --users, --requests, and --resolution must be above 0")
    if not 0 < options.percent < 100:
        parser.error("--percent must be between 0 and 100")
    if options.scenario == "search" and not bounded:
        parser.error("a search needs --ttft-bound-s or --tpot-bound-s")
    if options.tokens == "none" and options.tpot_bound_s is not None:
        parser.error("--tpot-bound-s needs a token count")
    least = fewest(0, options.percent)
    if bounded and options.scenario != "users" and options.requests < least:
        parser.error(f"--requests {options.requests} can't show {options.percent:g} %; at least {least}")
    return options


def main() -> None:
    """Parse the command line, apply the load, and print the figures."""
    options = checked(arguments())
    rank = Rank()
    rank.log("world_size", rank.size)
    if rank.size > 1:
        rank.fail("use one rank: one client process does all measurements")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # every request in progress is an open connection
    bounds = LatencyBounds(options.ttft_bound_s, options.tpot_bound_s, options.percent)
    with Path(FILE).open("w", buffering=1) as file:  # one line as each ends, whatever ends the run
        asyncio.run(measure(rank, options, Client(options, file), bounds))
    rank.leave()


if __name__ == "__main__":
    main()

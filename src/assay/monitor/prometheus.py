"""Prometheus' HTTP API, as Prometheus, Thanos and OpenShift's querier offer it, and common times.

Scraped series become rows with common times: interpolated, summed, and without inventing what is missing.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.errors import HostError, InputError
from assay.telemetry.samples import COUNTER

TIMEOUT_S: Final = 60.0  # without a byte
LONGEST_S: Final = 300.0  # of one answer, however slowly it comes
MOST_BYTES: Final = 256 << 20  # of one answer
WINDOW_S: Final = 3600.0  # of samples per request
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SHOWN: Final = 200  # characters of an unexpected answer


@dataclass(frozen=True)
class PrometheusSeries:
    """The samples of one series, as they were scraped.

    unix_s  seconds since 1970, increasing, shape (n,)
    value   shape (n,), finite
    """

    labels: Mapping[str, str]
    unix_s: NDArray[np.float64]
    value: NDArray[np.float64]


class PrometheusClient:
    """Asks one server. Raises HostError for what the server or the network is to blame for.

    url      with a path if the API is below one; InputError if it has a user, a query, or no host
    token    a bearer token; "" for none. It is sent over TLS or to this machine only, never after a redirect
    ca_file  certificates that vouch for the server, in PEM; None: the system's
    """

    def __init__(self, url: str, token: str = "", ca_file: Path | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is no address of a Prometheus; write it as https://prometheus.example")
        if parts.username or parts.password:
            raise InputError("the address has a user or a password, which would be stored; use a token file")
        if parts.query or parts.fragment:
            raise InputError(f"{url!r} has a query; give the address that ends before /api/v1")
        if token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InputError(f"{url!r} isn't encrypted, so anyone on the way could read the token; use https")
        self.url, self._token = url.rstrip("/"), token
        try:
            tls = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"{ca_file}: can't be read as certificates in PEM ({error})") from error
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirect())

    def samples(self, selector: str, begin_at: float, end_at: float) -> Iterator[PrometheusSeries]:
        """The scraped samples of every series that matches, from begin to end, seconds since 1970.

        It asks for ranges of raw samples and not through query_range, which repeats a sample for up to five
        minutes and so hides what is missing. Samples that are NaN or infinite are left out.
        """
        series: dict[str, tuple[Mapping[str, str], dict[float, float]]] = {}
        begin = begin_at
        while begin < end_at:
            end = min(end_at, begin + WINDOW_S)
            parameters = {"query": f"{selector}[{math.ceil(end - begin) + 1}s]", "time": f"{end:.3f}"}
            answer = self._ask("/api/v1/query", parameters)
            if answer.get("resultType") != "matrix":
                raise HostError(f"{self.url}: not an answer of Prometheus: {_printable(answer)}")
            for result in answer["result"]:
                labels = {str(name): str(value) for name, value in result["metric"].items()}
                _, values = series.setdefault(json.dumps(labels, sort_keys=True), (labels, {}))
                values |= {float(unix_s): float(value) for unix_s, value in result["values"]}
            begin = end
        for about, samples in series.values():
            kept = sorted(
                sample
                for sample in samples.items()
                if begin_at <= sample[0] <= end_at and math.isfinite(sample[1])
            )
            if kept:
                unix_s, value = np.array(kept).T
                yield PrometheusSeries(about, unix_s, value)

    def version(self) -> str:
        """The server's version, "" if it does not say; shows that the server answers and takes the token."""
        self._ask("/api/v1/query", {"query": "vector(1)"})
        try:
            return str(self._ask("/api/v1/status/buildinfo", {}).get("version", ""))
        except HostError:  # Thanos and restricted queriers have no such page
            return ""

    def _ask(self, path: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url + path, data=urllib.parse.urlencode(fields).encode()
        )
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                body = _body(answer)
        except urllib.error.HTTPError as error:
            raise HostError(self._refusal(error)) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise HostError(f"{self.url}: no answer ({reason or type(error).__name__})") from error
        if len(body) > MOST_BYTES:
            raise HostError(f"{self.url}: an answer of more than {MOST_BYTES >> 20} MiB; fetch fewer runs")
        return self._data(body)

    def _data(self, body: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(body)
            if answer["status"] == "success" and isinstance(answer["data"], dict):
                self._check(answer["data"])
                return answer["data"]
            message = answer.get("error") or answer
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            message = body.decode(errors="replace")
        raise HostError(f"{self.url}: not an answer of Prometheus: {_printable(message)}")

    def _check(self, data: Mapping[str, Any]) -> None:
        """Raises one of the errors above for a result of another form."""
        if data.get("resultType") == "matrix":
            for series in data["result"]:
                dict(series["metric"])
                for unix_s, value in series["values"]:
                    float(unix_s), float(value)

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        """What an HTTP status means for the user."""
        try:
            message = _printable(error.read(1 << 16).decode(errors="replace"))
        except (OSError, http.client.HTTPException):
            message = ""
        if error.code in (301, 302, 303, 307, 308):
            to = urllib.parse.urlsplit(error.headers.get("Location", "")).netloc
            return f"{self.url}: redirects to {to or 'another page'}; give the address of the API itself"
        if error.code in (401, 403):
            what = "refuses the token" if self._token else "requires a token: see --token-file"
            return f"{self.url}: {what} (HTTP {error.code})"
        return f"{self.url}: HTTP {error.code} {error.reason}: {message}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect, and a POST would become a GET."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse."""


def _body(answer: http.client.HTTPResponse) -> bytes:
    """An answer, but not much more than may be read. Raises TimeoutError if it never ends."""
    body, until = bytearray(), time.monotonic() + LONGEST_S
    while (part := answer.read1(1 << 20)) and len(body) <= MOST_BYTES:
        body += part
        if time.monotonic() > until:
            raise TimeoutError(f"its answer has not ended after {LONGEST_S:g} s")
    return bytes(body)


def _printable(value: object) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return " ".join(text.split())[:_SHOWN]


LATE: Final = 2.5  # intervals between two samples, from which on a sample is missing in between
SHORTEST_STEP_S: Final = 1.0


def interval_s(series: Iterable[PrometheusSeries]) -> float:
    """The longest of the series' median intervals; 0 if none has two samples."""
    return max(
        (float(np.median(np.diff(source.unix_s))) for source in series if len(source.unix_s) > 1), default=0.0
    )


def grid_times(begin_at: float, end_at: float, step_s: float) -> NDArray[np.float64]:
    """Times one step apart, from a run's begin on, and its end."""
    return np.unique(np.append(np.arange(begin_at, end_at, step_s), end_at))


def on_grid(
    series: PrometheusSeries, column: str, grid: NDArray[np.float64], step_s: float
) -> NDArray[np.float64]:
    """A series' values at these times; NaN where it has no samples nearby.

    Counters are interpolated between two samples that no reset separates; other values are the last sample.
    """
    after = np.searchsorted(series.unix_s, grid + 1e-6)
    before = np.clip(after - 1, 0, None)
    behind_s, last = grid - series.unix_s[before], len(series.unix_s) - 1
    value = np.where((after > 0) & (behind_s <= LATE * step_s), series.value[before], np.nan)
    if not column.endswith(COUNTER):
        return np.where(
            series.unix_s[before] >= grid[0], value, np.nan
        )  # what was before a run is not of the run
    following = np.clip(after, 0, last)
    gap_s = series.unix_s[following] - series.unix_s[before]
    counts = (
        (after > 0)
        & (after <= last)
        & (gap_s <= LATE * step_s)
        & (series.value[following] >= series.value[before])
    )
    share = np.divide(behind_s, gap_s, out=np.zeros_like(grid), where=gap_s > 0)
    between = series.value[before] + share * (series.value[following] - series.value[before])
    exact = behind_s <= 1e-3
    return np.where(counts, between, np.where(exact, value, np.nan))


def summed(
    series: Sequence[PrometheusSeries], column: str, grid: NDArray[np.float64], step_s: float
) -> tuple[NDArray[np.float64], list[Mapping[str, str]]]:
    """The sum over CPUs, disks, ports or containers, and the labels of those that were left out.

    A counter that is not there from the first to the last sample of the others would add its whole count at
    once when it appears; it is left out.
    """
    begin, end = min(source.unix_s[0] for source in series), max(source.unix_s[-1] for source in series)
    late_s = LATE * step_s
    kept = [
        source
        for source in series
        if source.unix_s[0] <= begin + late_s and source.unix_s[-1] >= end - late_s
    ]
    parts = [on_grid(source, column, grid, step_s) for source in kept]
    with np.errstate(over="ignore"):  # a server's numbers may be any: what is not finite is absent
        total = np.sum(parts, axis=0) if parts else np.full_like(grid, np.nan)
    return total, [source.labels for source in series if not any(source is other for other in kept)]

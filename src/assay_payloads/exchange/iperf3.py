"""TCP between two nodes with iperf3, which must be installed on them.

    python -m assay_payloads.exchange.iperf3 --program iperf3 --streams 4 --seconds 10 \\
        --directions 0-to-1 1-to-0 both

Directions are those of the data, between worker 0 and worker 1. The server is always on worker 0; the client
on worker 1 tells it to send (`--reverse`) or to do both at the same time (`--bidir`).
"""

from __future__ import annotations

import argparse

from assay_payloads.exchange.pair import REFUSED, PairEnd, joined
from assay_payloads.measuring.rank import END
from assay_payloads.measuring.site_program import FailureWords

DIRECTIONS = {"1-to-0": [], "0-to-1": ["--reverse"], "both": ["--bidir"]}
WORDS = FailureWords(
    (
        (r"unable to connect|No route to host|timed out", REFUSED),
        (r"(unrecognized|invalid) option", "this iperf3 is too old; `both` needs 3.7 or newer"),
        (
            r"TCP_CONGESTION",
            "see net.ipv4.tcp_available_congestion_control; you may have to load its kernel module",
        ),
    ),
    error=r'^"error":',  # in its JSON, after which it exits with 0
)


def measure(pair: PairEnd, options: argparse.Namespace, direction: str) -> None:
    """One test, from either end."""
    labels = {"direction": direction}
    if pair.number == 0:

        def server(port: int) -> list[str]:
            return [options.program, "--server", "--one-off", "--port", str(port), "--json"]

        pair.serve(server, options.port, labels)
        return

    def client(address: str, port: int) -> list[str]:
        argv = [options.program, "--client", address, "--port", str(port), "--json"]
        argv += ["--parallel", str(options.streams), "--time", str(options.seconds)]
        argv += ["--omit", str(options.omit_seconds), *DIRECTIONS[direction]]
        argv += ["--window", str(options.window_bytes)] if options.window_bytes else []
        return argv + (["--congestion", options.congestion] if options.congestion else [])

    pair.connect(client, labels)


def main() -> None:
    """Read the command line, measure every direction."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default="iperf3", help="its path, or its name on the PATH")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--omit-seconds", type=int, default=1, help="seconds at the beginning to skip")
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=["0-to-1", "1-to-0"])
    parser.add_argument("--window-bytes", type=int, help="size of socket buffers; default: the kernel's")
    parser.add_argument("--congestion", help="congestion control algorithm; default: the kernel's")
    parser.add_argument("--port", type=int, help="port of the server; default: a free one")
    options = parser.parse_args()
    pair = joined(WORDS)
    for direction in options.directions:
        measure(pair, options, direction)
    pair.rank.log("payload", event=END)


if __name__ == "__main__":
    main()

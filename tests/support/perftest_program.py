"""Stands in for a program of perftest: its ends meet over a real socket, the client prints what was recorded.

    ib_write_bw -d mlx5_0 -i 1 -a -p 18515 [HOST]

It has what lies beside it: `version`, `help`, `output` (the client's), `json` (what `--out_json` writes),
and, where it is to fail, `failure` (what it then prints) of the end named in `failing`.
"""

from __future__ import annotations

import socket
import sys
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent


def recorded(name: str) -> str:
    path = HERE / name
    return path.read_text() if path.exists() else ""


def serve(port: int) -> None:
    with socket.create_server(("", port)) as server:
        print("\n* Waiting for client to connect... *", flush=True)
        connection = server.accept()[0]
        with connection:
            connection.recv(1)


def main(argv: list[str]) -> int:
    if argv in (["--version"], ["--help"]):
        print(recorded(argv[0][2:]))
        return 1
    valued = dict(pairwise(argv))
    host = argv[-1] if not argv[-1].startswith("-") and argv[-2] != "-p" else ""
    if recorded("failing").strip() == ("client" if host else "server"):
        print(recorded("failure"), file=sys.stderr)
        return 1
    if not host:
        serve(int(valued["-p"]))
        return 0
    with socket.create_connection((host, int(valued["-p"])), timeout=10):
        print(recorded("output"))
    for word in argv:
        if word.startswith("--out_json_file="):
            Path(word.partition("=")[2]).write_text(recorded("json"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

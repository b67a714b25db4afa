"""The same function over many tasks: in processes of this machine, or on Ray.

Results come as they finish. A few tasks per worker are under way at once, so that memory doesn't grow with
their number. A task whose worker is killed goes to another one; a task that kills its worker again and again
is an error, because something about it does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar

from assay.errors import HostError, InputError

LOCAL: Final = "local"  # a Ray of our own on this machine
AHEAD: Final = 2  # tasks under way per worker
MOST_DEATHS: Final = 3  # of workers in a row, before any other task finished
ANSWERS_WITHIN_S: Final = 10.0
NODES_EVERY_S: Final = 10.0  # while no task finishes, between two looks whether a node is left
SMALL_STORE_BYTES: Final = 256 << 20  # of an embedded Ray: tasks and results are small
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """Where tasks run.

    processes  how many at once, 1: this process itself; None: one per CPU that this process may use, or that
               the Ray cluster has
    ray        None: processes of this machine; "local": Ray, embedded; else the address of a Ray cluster:
               "auto", HOST:PORT, or ray://HOST:PORT
    gpus       that each needs: 0, or a share of one
    """

    processes: int | None = None
    ray: str | None = None
    gpus: float = 0.0


def mapped(function: Callable[[Task], Result], tasks: Iterable[Task], workers: Workers) -> Iterator[Result]:
    """The function's result for each task, in the order in which they finish.

    function  of a module, so that a worker can import it; what it raises is raised here

    Raises InputError if Ray is requested and not installed, or its cluster can't be reached; HostError if
    workers are killed again and again.
    """
    each = _on_processes if workers.ray is None else _on_ray
    yield from each(function, iter(tasks), workers)


def _on_processes(
    function: Callable[[Task], Result], tasks: Iterator[Task], workers: Workers
) -> Iterator[Result]:
    count = workers.processes or len(os.sched_getaffinity(0))
    if count == 1:  # another process would only have to be started
        yield from map(function, tasks)
        return
    deaths = 0
    while True:
        under_way: dict[Future[Result], Task] = {}
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=spawned, initializer=_end_with_driver) as pool:
            try:
                for task in islice(tasks, AHEAD * count):
                    under_way[pool.submit(function, task)] = task
                while under_way:
                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        del under_way[future]
                        deaths = 0
                        for task in islice(tasks, 1):
                            under_way[pool.submit(function, task)] = task
                        yield result
                return
            except BrokenProcessPool:  # one was killed, and the pool ends the others
                deaths += 1
                _check_deaths(deaths)
                tasks = chain(list(under_way.values()), tasks)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _end_with_driver() -> None:
    """End this worker when its driver is killed: it would wait for tasks forever. Ctrl-C ends it silently."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_wait_for_driver, daemon=True).start()


def _wait_for_driver() -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)


def _check_deaths(deaths: int) -> None:
    if deaths >= MOST_DEATHS:
        raise HostError(
            f"{deaths} workers in a row were killed before one finished its task: usually this machine has "
            "too little memory for them (`dmesg` shows it); use fewer workers. What finished is kept"
        )


def _on_ray(function: Callable[[Task], Result], tasks: Iterator[Task], workers: Workers) -> Iterator[Result]:
    assert workers.ray is not None
    with _connected(workers.ray, workers.processes) as ray:
        from ray.exceptions import RayError, RayTaskError

        needs: dict[str, Any] = {"num_cpus": 1, "max_retries": MOST_DEATHS}
        needs |= {"num_gpus": workers.gpus} if workers.gpus else {}
        remote = ray.remote(**needs)(function)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        count = AHEAD * (workers.processes or max(1, cpus))
        under_way = [remote.remote(task) for task in islice(tasks, count)]
        try:
            while under_way:
                ready, under_way = ray.wait(under_way, num_returns=1, timeout=NODES_EVERY_S)
                if not ready:
                    _check_nodes(ray)
                    continue
                result = ray.get(ready[0])
                under_way += [remote.remote(task) for task in islice(tasks, 1)]
                yield result
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise HostError(f"Ray gave a task up: {_first_line(error)}. What finished is kept") from None


def _check_nodes(ray: Any) -> None:
    """Raises HostError if no node is left: Ray would wait for one without end."""
    if not any(node["Alive"] for node in ray.nodes()):
        raise HostError(
            "no node of Ray is left: its processes were killed, or it ran out of memory; `ray status` shows "
            "a cluster's. What finished is kept"
        )


@contextmanager
def _connected(address: str, processes: int | None) -> Iterator[Any]:
    """Ray, started or attached to. Raises InputError if it is not installed, or no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a future default that it warns about
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: install it with pip install 'cluster-assay[ray]'") from None
    _check_answers(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with _RayStart(address):
        if address == LOCAL:
            cpus = processes or len(os.sched_getaffinity(0))
            ray.init(
                address=LOCAL,
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=SMALL_STORE_BYTES,
                **quiet,
            )
        else:
            ray.init(address=address, runtime_env={"py_modules": _own_packages()}, **quiet)
    try:
        yield ray
    finally:
        ray.shutdown()


class _RayStart:
    """What keeps Ray from starting, as an error of the user's words.

    Ray raises errors of the class Exception itself when a node doesn't come up in time. Those, and no
    subclass that is not known here, are meant.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        known = (ConnectionError, TimeoutError, ValueError, RuntimeError, OSError)
        if kind is None or error is None or not (kind is Exception or issubclass(kind, known)):
            return
        what = _first_line(error)
        if self.address == LOCAL:
            raise HostError(
                f"Ray can't be started on this machine: {what}; stop what keeps it busy, or use --workers "
                "without --ray"
            ) from None
        raise InputError(
            f"Ray at {self.address!r} can't be used: {what}; `ray status` shows whether it is up, and its "
            "version must be the one that is installed here; if it asks for a token, set RAY_AUTH_MODE=token"
        ) from None


def _check_answers(address: str) -> None:
    """Fail at once for a host and port where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray answers at {address}: {error}; `ray status` shows a cluster's") from None


def _own_packages() -> list[str]:
    """Directories of what a cluster's workers import: they need no Assay of their own."""
    return [str(Path(__file__).parents[2] / package) for package in ("assay", "assay_payloads")]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]

"""What runs now, and how it stays up to date: one look at the files for all browsers together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from litestar import Response, get
from litestar.concurrency import sync_to_thread
from litestar.response import ServerSentEvent, ServerSentEventMessage

from assay import redact
from assay.errors import AssayError, BusyError
from assay.monitor.questions.running import running_trials, trial
from assay.view import html
from assay.web.access import MAY_READ_ON
from assay.web.guard import MOST_STREAMS
from assay.web.queries import Name, some
from assay.web.rendering import page, text_of, with_query
from assay.web.site import Site

if TYPE_CHECKING:
    from assay.monitor.live import LiveRun

LOOK_S = 2.0  # between two looks at what runs
PING_S = 15.0  # of silence, after which proxies would close a stream
SILENCE_S = 3 * PING_S  # after which a browser takes the server for lost


@get("/live", sync_to_thread=True, include_in_schema=False)
def live(site: Site, session: Name = None) -> Response[str]:
    """What runs now; a browser with scripts keeps it up to date."""
    name = some(session)
    return page(
        "base.html",
        here="/live",
        title="What runs now",
        command=f"assay watch {name or ''}".rstrip(),
        **followed(site, name or ""),
    )


@get("/live/events", include_in_schema=False)
async def events(watchers: Watchers, session: Name = None) -> ServerSentEvent:
    """The same part of the page again whenever it changed."""
    return ServerSentEvent(watchers.follow(some(session) or "", MAY_READ_ON.get()))


def followed(site: Site, session: str) -> dict[str, Any]:
    """What a page shows of running trials, and how a browser with scripts keeps that up to date.

    session  `SUITE` or `SUITE/SESSION`; "" for all

    Raises InputError if the session does not exist.
    """
    return {
        "events": with_query("/live/events", session=session),
        "silence_s": SILENCE_S,
        "running": shown(running_trials(session, runs=site.runs).running),
    }


def shown(lives: Sequence[LiveRun]) -> list[tuple[LiveRun, str]]:
    """Each running trial, and the same as `assay watch` shows it."""
    return [(live, redact.text(html.fragment(trial(live)))) for live in lives]


class Watchers:
    """Looks at what runs as long as somebody follows it, once for all who follow the same."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._watched: dict[str, _Watched] = {}
        self._streams, self._has_ended = 0, False

    async def end(self) -> None:
        """End all streams, as the server stops; browsers ask again by themselves."""
        self._has_ended = True
        for watched in [*self._watched.values()]:
            async with watched.changed:
                watched.changed.notify_all()

    def follow(self, session: str, may_read_on: Callable[[], bool]) -> AsyncIterator[ServerSentEventMessage]:
        """The part of the page at once, then whenever it changed; a silent stream says that it is there.

        It ends when who asked may no longer read.

        Raises BusyError if too many browsers follow already.
        """
        if self._streams >= MOST_STREAMS:
            raise BusyError(f"{MOST_STREAMS} browsers follow already; close one, or reload the page instead")
        return self._stream(session, may_read_on)

    async def _stream(
        self, session: str, may_read_on: Callable[[], bool]
    ) -> AsyncIterator[ServerSentEventMessage]:
        if self._streams >= MOST_STREAMS:  # they asked at the same time; a browser asks again
            return
        self._streams += 1
        watched = self._watched.setdefault(session, _Watched())
        watched.followers += 1
        if watched.look is None:
            watched.look = asyncio.create_task(self._look(session, watched))
        seen = 0
        try:
            while not self._has_ended:
                if watched.version == seen:
                    async with watched.changed:
                        is_new = await _within(watched.changed.wait(), PING_S)
                    if not may_read_on():
                        return
                    if not is_new:
                        yield ServerSentEventMessage(event="still-here", data="yes")
                    if watched.version == seen:
                        continue
                seen = watched.version
                yield ServerSentEventMessage(data=watched.part, id=seen)
        finally:
            self._streams -= 1
            watched.followers -= 1
            if not watched.followers and watched.look is not None:
                watched.look.cancel()
                self._watched.pop(session, None)

    async def _look(self, session: str, watched: _Watched) -> None:
        while True:
            part = await sync_to_thread(self._part, session)
            if part != watched.part:
                async with watched.changed:
                    watched.part, watched.version = part, watched.version + 1
                    watched.changed.notify_all()
            await asyncio.sleep(LOOK_S)

    def _part(self, session: str) -> str:
        try:
            return text_of(
                "running.html", running=shown(running_trials(session, runs=self._site.runs).running)
            )
        except AssayError as error:
            return text_of("running.html", problem=str(error))


class _Watched:
    """What is followed: the newest part of the page, its version, and who waits for the next."""

    def __init__(self) -> None:
        self.part, self.version, self.followers = "", 0, 0
        self.changed = asyncio.Condition()
        self.look: asyncio.Task[None] | None = None


async def _within(wait: Any, seconds: float) -> bool:
    try:
        await asyncio.wait_for(wait, seconds)
    except TimeoutError:
        return False
    return True

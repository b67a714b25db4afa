"""The runs directory that a server shows, and how its index is kept up to date meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from assay.errors import AssayError
from assay.questions.attention import AttentionItem, attention
from assay.questions.browsing import has_runs

REFRESH_S = 3.0  # between looks at sessions that run while somebody reads pages
WHOLE_REFRESH_S = 60.0  # between looks at all runs
MOST_OF_THE_TIME = 0.05  # that a look may take, so that pages have the rest


class Site:
    """One runs directory.

    runs     the directory
    catalog  file of the catalog of labelled frames; it need not exist
    folders  folders of MLPerf logs by name
    trouble  why the newest runs may be missing in lists, as text; "" if they are not
    """

    def __init__(
        self, runs: Path, *, catalog: Path = Path("catalog.duckdb"), folders: Iterable[Path] = ()
    ) -> None:
        self.runs, self.catalog = runs, catalog
        self.folders = {path.resolve().name: path for path in folders}
        self.trouble = ""
        self._next_look = self._next_whole_look = float("-inf")
        self._looking, self._has_looked = threading.Lock(), threading.Event()
        self._judges = ThreadPoolExecutor(1, thread_name_prefix="attention")
        self._judging: Future[tuple[AttentionItem, ...]] | None = None
        self._asking = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether there is no session yet, as before the first run."""
        return not has_runs(runs=self.runs)

    def attention(self, within_s: float) -> Sequence[AttentionItem] | None:
        """What needs a look, if it is known within this time: what hasn't changed was judged before.

        None if it takes longer; it goes on, for the next who asks. Raises InputError if there are no runs.
        """
        with self._asking:
            if self._judging is None or self._judging.done():
                self._judging = self._judges.submit(attention, runs=self.runs)
            judging = self._judging
        try:
            return judging.result(within_s)
        except TimeoutError:
            return None

    def folder(self, name: str) -> Path | None:
        """The folder of MLPerf logs with this name; None if the server was started without it."""
        return self.folders.get(name)

    def refresh(self) -> None:
        """Begin a look at what changed since the index was made, unless one was made just now.

        The first look, which is at sessions that are new or run, is waited for; the others take their time
        beside the pages.
        """
        if self._looking.acquire(blocking=False):
            now = time.monotonic()
            if now < self._next_look:
                self._looking.release()
            else:
                whole = self._has_looked.is_set() and now >= self._next_whole_look
                try:
                    threading.Thread(target=self._look, args=[whole], name="refresh", daemon=True).start()
                except RuntimeError:  # the machine gives no thread: whoever asks waits
                    self._look(whole)
        self._has_looked.wait()

    def _look(self, whole: bool) -> None:
        from assay.questions.browsing import refresh

        begin = time.monotonic()
        try:
            refresh(whole=whole, runs=self.runs)
            self.trouble = ""
        except (AssayError, OSError) as error:  # OSError: what it reads vanishes meanwhile
            self.trouble = str(error)
        finally:
            end = time.monotonic()
            rest_s = (end - begin) / MOST_OF_THE_TIME
            self._next_look = end + max(REFRESH_S, 0.0 if whole else rest_s)
            if whole:
                self._next_whole_look = end + max(WHOLE_REFRESH_S, rest_s)
            self._looking.release()
            self._has_looked.set()

"""The runs directory that a server shows, and how its index is kept up to date meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from assay.errors import AssayError

REFRESH_S = 3.0  # between looks at the run directories while somebody reads pages


class Site:
    """One runs directory.

    runs     the directory
    trouble  why the newest runs may be missing in lists, as text; "" if they are not
    """

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.trouble = ""
        self._looked_at = float("-inf")
        self._looking = threading.Lock()

    def refresh(self) -> None:
        """Begin a look at what changed since the index was made, unless one was made just now.

        The first look is waited for; the later ones take their time beside the pages.
        """
        if not self._looking.acquire(blocking=False):
            return
        is_first = self._looked_at == float("-inf")
        if time.monotonic() - self._looked_at < REFRESH_S:
            self._looking.release()
            return
        look = threading.Thread(target=self._look, name="refresh", daemon=True)
        look.start()
        if is_first:
            look.join()

    def _look(self) -> None:
        from assay.api.browsing import refresh

        try:
            refresh(runs=self.runs)
            self.trouble = ""
        except AssayError as error:
            self.trouble = str(error)
        finally:
            self._looked_at = time.monotonic()
            self._looking.release()

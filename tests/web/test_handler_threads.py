"""What a handler raises, whatever it is, is an answer and a line of the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("litestar")


@pytest.mark.filterwarnings("ignore:.*(Inferred dependency|deprecated)")  # of Litestar, until version 3
@pytest.mark.parametrize("error", [StopIteration(), KeyError("left")])
def test_an_error_in_a_handlers_thread_is_an_answer_and_is_logged(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from litestar.testing import TestClient

    from assay.web import manual_pages
    from assay.web.app import make_app
    from assay.web.site import Site

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(manual_pages, "page", fail)
    app = make_app(Site(tmp_path), names=["testserver.local"])
    with TestClient(app, raise_server_exceptions=False) as client, caplog.at_level(logging.ERROR):  # type: ignore[arg-type]
        answer = client.get("/doubts", timeout=20)
    assert (answer.status_code, "log says why" in answer.text) == (500, True)
    assert "GET /doubts\nTraceback" in caplog.text
    assert type(error).__name__ in caplog.text

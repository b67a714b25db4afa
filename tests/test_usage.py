"""A command line that lacks something says what, with an example that can be copied, and exits 2."""

from __future__ import annotations

import sys

import pytest

from assay import cli


@pytest.mark.parametrize(
    ("words", "missing", "example"),
    [
        ("schema", "{suite|systems}", "assay schema suite > suite.schema.json"),
        ("gate", "--baseline B [OPTIONS] A", "assay gate nightly --baseline nightly/2026-03-01T021500Z"),
        ("gate nightly", "Missing option '--baseline'", "assay gate nightly --baseline nightly/"),
        ("history", "Missing argument 'METRIC'", "assay history throughput --suite nightly"),
        ("stack", "containerfile", "assay stack containerfile resnet50 --accelerator cuda"),
        ("stack containerfile", "WORKLOAD", "assay stack containerfile resnet50 --accelerator cuda"),
    ],
)
def test_what_a_command_needs_is_shown_with_an_example(
    words: str,
    missing: str,
    example: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["assay", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert missing in said.err
    assert example in said.err

"""A question's fields are its command, its address and its function; its answer is told in every form."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner

from assay.cli.question_command import command_of
from assay.errors import EXIT_UNDECIDED
from assay.questions.question import Answer, Question, Reads, argument, function, option, question
from assay.records import Doubt
from assay.view import html, terminal
from assay.view.blocks import Block, Doubts, Fold, Lead, Paragraph, Table, TableBody, TableRow
from assay.web.json_api import question_handler


def half(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError(f"{text} is no share; write it like 2%")
    return float(text[:-1]) / 200


@dataclass(frozen=True)
class Told(Answer):
    """What was asked."""

    options: dict[str, Any]

    @property
    def exit_code(self) -> int:
        return EXIT_UNDECIDED

    def view(self) -> Iterator[Block]:
        yield Lead("Do this.")
        yield Fold((Paragraph("few"),), (Paragraph("many"),), "3 more", "--all")

    def document(self) -> dict[str, Any]:
        return {"schema": "assay.told/1", **self.options}


@question
class Ask(Question):
    """Ask a thing."""

    all_help = "Show all."

    first: str = argument()
    second: str | None = argument(default=None)
    share: Annotated[float, Reads(half, "SHARE")] | None = option("A share.", default=None)
    loud: bool = option("Loudly.", default=False)
    with_: tuple[str, ...] = option("With these.", default=(), metavar="SET")

    def answer(self) -> Told:
        return Told({"first": self.first, "share": self.share, "loud": self.loud, "with": list(self.with_)})


def test_fields_are_options_and_the_exit_code_is_the_answers() -> None:
    asked_ = CliRunner().invoke(command_of(Ask), ["a", "--share", "4%", "--loud", "--with-", "x", "--json"])
    assert asked_.exit_code == EXIT_UNDECIDED
    told = {"schema": "assay.told/1", "first": "a", "share": 0.02, "loud": True, "with": ["x"]}
    assert json.loads(asked_.output) == told


def test_a_value_that_cannot_be_read_is_a_mistake_of_usage_with_its_reason() -> None:
    asked_ = CliRunner().invoke(command_of(Ask), ["a", "--share", "4"])
    assert asked_.exit_code == 2
    assert "4 is no share; write it like 2%" in asked_.output
    assert CliRunner().invoke(command_of(Ask), []).exit_code == 2


@pytest.mark.parametrize(("words", "shown", "hidden"), [([], "few", "many"), (["--all"], "many", "few")])
def test_all_shows_what_is_folded(words: list[str], shown: str, hidden: str) -> None:
    output = CliRunner().invoke(command_of(Ask), ["a", *words]).output
    assert shown in output
    assert hidden not in output
    assert ("3 more; show them with --all." in output) == (not words)


def test_the_function_has_the_fields_as_parameters_and_says_what_they_are() -> None:
    ask = function(Ask, Ask.answer)
    assert ask("a", share=0.5).options["share"] == 0.5
    assert list(inspect.signature(ask).parameters) == ["first", "second", "share", "loud", "with_"]
    assert "share  A share." in (ask.__doc__ or "")
    with pytest.raises(TypeError):
        ask("a", "b", 0.5)  # type: ignore[misc]  # options are given by name


def test_an_address_has_the_same_names_but_nothing_of_this_machine() -> None:
    from assay.questions.compare import Compare

    handler = question_handler("/compare", "Compare", Compare)
    names = set(inspect.signature(handler.fn).parameters)
    assert {"a", "b", "margin", "layouts", "reference"} <= names
    assert "runs" not in names


HOSTILE = "[bold]<script>\x1b[31m"


def blocks() -> list[Block]:
    table = Table(
        HOSTILE,
        ("", "value", "verdict", "detail"),
        (TableBody("section", (TableRow(("place", HOSTILE, "= equivalent", "hidden"), "equivalent"),), "s"),),
        details=frozenset({3}),
        verdicts=2,
    )
    doubt = Doubt("one-session", HOSTILE, "repeat it")
    return [Lead(HOSTILE), Paragraph(HOSTILE, "dim"), table, Doubts(((doubt, 1),), 2)]


def test_a_terminal_gets_no_control_character_and_no_detail() -> None:
    text = terminal.plain(terminal.shown(blocks()))
    assert "\x1b" not in text
    assert "[bold]<script>" in text
    assert "hidden" not in text
    assert "this and similar: 1 of 2" in " ".join(text.split())


def test_a_page_gets_no_markup_of_a_text_and_every_column() -> None:
    text = html.fragment(blocks())
    assert "<script>" not in text
    assert "hidden" in text
    assert "section (s)" in text


def test_what_is_folded_is_in_a_page_too() -> None:
    text = html.fragment([Fold((Paragraph("few"),), (Paragraph("many"),), "3 more")])
    assert text == "<p>few</p><details><summary>3 more</summary><p>many</p></details>"


def test_no_question_prints_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ask("a").answer()
    assert capsys.readouterr().out == ""

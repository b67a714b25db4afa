"""A question's fields are its command, its address and its function; its answer is told in every form."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from click.testing import CliRunner

from assay.cli.question_command import command_of
from assay.errors import EXIT_UNDECIDED, InputError
from assay.questions.question import (
    Answer,
    Question,
    Reads,
    argument,
    form_of,
    function,
    function_of_many,
    option,
    progress_line,
    question,
)
from assay.records import Doubt
from assay.view import html, terminal
from assay.view.blocks import Block, Doubts, Fold, Heading, Lead, Paragraph, Table, TableBody, TableRow
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


@question
class Needy(Question):
    """Ask about a thing that must be named."""

    name: str = option("Which.")

    def answer(self) -> Told:
        return Told({"name": self.name})


def test_an_option_without_default_must_be_given() -> None:
    assert CliRunner().invoke(command_of(Needy), []).exit_code == 2
    done = CliRunner().invoke(command_of(Needy), ["--name", "x", "--json"])
    assert json.loads(done.output)["name"] == "x"


@question
class Many(Question):
    """Ask about many things."""

    things: tuple[str, ...] = argument(parameters=("thing", "more"))
    kind: Literal["a", "b"] | None = option("Which.", default=None)
    log: str | None = option("A log.", default=None, names=("-l", "--log"), file=True)
    output: Path | None = option("A file.", default=None, output=True)
    tell: Callable[[int], object] | None = progress_line(lambda done: f"{done} done", default=None)

    def __post_init__(self) -> None:
        if self.kind == "b" and len(self.things) > 1:
            raise ValueError("--kind b is about one thing")

    def answer(self) -> Told:
        if self.tell is not None:
            self.tell(len(self.things))
        return Told({"things": list(self.things)})

    def write(self, answer: Told) -> Told | bytes:
        return b"content" if self.output == Path("-") else answer


def test_many_arguments_are_one_field_and_the_functions_first_and_more() -> None:
    many, news = function_of_many(Many, Many.answer), list[int]()
    assert list(inspect.signature(many).parameters) == ["thing", "more", "kind", "log", "tell"]
    assert many("x", "y", tell=news.append).options == many(["x", "y"]).options == {"things": ["x", "y"]}
    assert news == [2]
    printed = CliRunner().invoke(command_of(Many), ["x", "y", "--json"]).output
    assert json.loads(printed)["things"] == ["x", "y"]
    with pytest.raises(TypeError):
        many()


def test_options_that_do_not_fit_together_are_a_mistake_of_usage_and_of_the_call() -> None:
    words = ["x", "y", "--kind", "b"]
    done = CliRunner().invoke(command_of(Many), words)
    assert (done.exit_code, "--kind b is about one thing" in done.output) == (2, True)
    with pytest.raises(InputError, match="about one thing"):
        function_of_many(Many, Many.answer)("x", "y", kind="b")


@pytest.mark.parametrize("words", [["--kind", "c"], ["-l", "absent.txt"], ["--output", "-", "--json"]])
def test_what_is_no_choice_no_file_or_two_outputs_is_a_mistake_of_usage(words: list[str]) -> None:
    assert CliRunner().invoke(command_of(Many), ["x", *words]).exit_code == 2


def test_a_files_content_is_all_that_is_printed() -> None:
    assert CliRunner().invoke(command_of(Many), ["x", "--output", "-"]).output == "content"


@pytest.mark.parametrize(
    ("output", "form", "expected"),
    [("a.md", None, "markdown"), ("a.MD", "html", "html"), (None, None, "html"), ("page-v3.1", None, "html")],
)
def test_the_format_is_the_named_one_or_the_files(
    output: str | None, form: str | None, expected: str
) -> None:
    endings = {".html": "html", ".md": "markdown"}
    assert form_of(output, form, endings) == expected
    with pytest.raises(ValueError, match="pdf can't be written"):
        form_of("a.pdf", None, endings)


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
    return [Heading(HOSTILE), Lead(HOSTILE), Paragraph(HOSTILE, "dim"), table, Doubts(((doubt, 1),), 2)]


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


def test_a_table_without_a_caption_is_named_by_its_heading_also_where_it_is_folded() -> None:
    table = Table("", ("size", "n"), (TableBody("", (TableRow(("8", "5")),)),))
    text = html.fragment([Heading("one"), table, Heading("other"), Fold((table,), (table,), "more")])
    assert text.count('aria-label="one"') == 1
    assert text.count('aria-label="other"') == 2


def test_no_question_prints_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Ask("a").answer()
    assert capsys.readouterr().out == ""


@question
class Often(Question):
    """Ask again and again."""

    all_help = "Show all."

    every: str = option("How often.", default="1h")

    def answer(self) -> Told:
        return Told({"every": self.every})


def test_a_field_may_have_the_name_of_what_all_shows() -> None:
    answered = CliRunner().invoke(command_of(Often), ["--every", "7min", "--json"])
    assert json.loads(answered.output)["every"] == "7min"

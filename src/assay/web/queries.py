"""The parameters that addresses have in common, and pages with a form whose address is the question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from litestar import Response
from litestar.params import Parameter, QueryParameter

from assay.errors import InputError
from assay.questions.browsing import MOST_ROWS, RowPage, browse
from assay.questions.question import Question
from assay.records import RunState
from assay.store import Filter, SortOrder
from assay.units import moment
from assay.view.blocks import Block
from assay.view.document import answer_blocks
from assay.web.rendering import blocks_page, page, with_query

LONGEST = 300  # characters of a value
DEFAULT_LIMIT = 50  # rows of a page

Name = Annotated[str | None, Parameter(max_length=LONGEST)]
STATES = tuple(state.value for state in RunState)
StateName = Annotated[  # Litestar reserves `state`
    str | None,
    QueryParameter(name="state", max_length=LONGEST, schema_extra={"enum": [*STATES, ""]}),
]
Required = Annotated[str, Parameter(min_length=1, max_length=LONGEST)]
Names = Annotated[list[str] | None, Parameter(max_items=20)]
References = Annotated[list[str] | None, Parameter(max_items=20)]
Group = Annotated[Literal["name", "accelerator", "none", ""] | None, Parameter()]
RequiredNames = Annotated[list[str], Parameter(min_items=1, max_items=20)]
Line = Annotated[int, Parameter(ge=1, le=1 << 53)]
Attempt = Annotated[int | None, Parameter(ge=1, le=1 << 31)]
PageNumber = Annotated[int, Parameter(ge=1, le=1 << 31)]
Limit = Annotated[int, Parameter(ge=1, le=MOST_ROWS)]


def some(value: str | None) -> str | None:
    """None for a field of a form that was left empty."""
    return (value or "").strip() or None


def listed(values: Sequence[str] | None) -> tuple[str, ...]:
    """References from an address: each value may hold several, separated by spaces, as in a form."""
    return tuple(word for value in values or () for word in value.split())


def page_links(number: int, pages: int, address_of: Callable[[int], str]) -> list[tuple[str, str]]:
    """Words and address of the other pages of a list, from page `number` of `pages`."""
    before = [("First", address_of(1)), ("Previous", address_of(number - 1))] if number > 1 else []
    after = [("Next", address_of(number + 1)), ("Last", address_of(pages))] if number < pages else []
    return before + after


@dataclass(frozen=True)
class ListQuestion:
    """What an address asks of the list of runs: the same for the page and for the JSON API.

    asked   its filters as they are in the address, to make other addresses with
    sort    as it is in the address
    """

    only: Filter
    order: SortOrder
    trials: bool
    number: int
    limit: int
    criteria: Mapping[str, Any]
    sort: str | None

    def rows(self, runs: Path) -> RowPage:
        """The answer. Raises InputError for a column that does not exist."""
        return browse(
            self.only, order=self.order, number=self.number, limit=self.limit, trials=self.trials, runs=runs
        )

    def page_address(self, path: str, number: int) -> str:
        """The address of another page of the same list."""
        return with_query(path, **self.criteria, sort=self.sort, number=number)


def list_question(
    suite: Name = None,
    system: Name = None,
    workload: Name = None,
    benchmark: Name = None,
    of_state: StateName = None,
    since: Name = None,
    q: Name = None,
    sort: Name = None,
    trials: bool = False,
    number: PageNumber = 1,
    limit: Limit = DEFAULT_LIMIT,
) -> ListQuestion:
    """The question of these parameters. Raises InputError for what is no time or no state."""
    if some(of_state) not in (None, *STATES):
        raise InputError(f"state: found {of_state!r}; expected one of {', '.join(STATES)}")
    try:
        begin = None if some(since) is None else moment(since or "")
    except ValueError as error:
        raise InputError(f"since: {error}") from error
    criteria = {
        "suite": suite,
        "system": system,
        "workload": workload,
        "benchmark": benchmark,
        "state": of_state,
        "since": since,
        "q": q,
        "trials": "true" if trials else None,
        "limit": None if limit == DEFAULT_LIMIT else limit,
    }
    only = Filter(
        suite=some(suite),
        system=some(system),
        workload=some(workload),
        benchmark=some(benchmark),
        state=some(of_state),
        since=begin,
        words=some(q),
    )
    return ListQuestion(only, _order(sort), trials, number, limit, criteria, sort)


def _order(sort: str | None) -> SortOrder:
    """By a column, `-` before it for the largest first; by default, the newest first."""
    order = some(sort) or "-created_at"
    return SortOrder(order.removeprefix("-"), order.startswith("-"))


@dataclass(frozen=True)
class FormField:
    """One field of a form.

    label    what a person reads
    value    as it is in the address
    offered  values to choose from; others can be typed
    """

    name: str
    label: str
    value: str | None = None
    placeholder: str = ""
    offered: Sequence[str] = ()
    required: bool = False
    wide: bool = False


@dataclass(frozen=True)
class QuestionForm:
    """A page that answers one question.

    here      its path
    data      the address of its documents
    hint      what to ask, shown while nothing is asked
    examples  (words, address) of questions that have an answer here
    """

    here: str
    title: str
    verb: str
    hint: str
    fields: Sequence[FormField]
    examples: Sequence[tuple[str, str]] = ()
    data: str = ""

    def ask(self, query: Question | None) -> Response[str]:
        """The page that answers a question, with the command and the document that answer the same."""
        if query is None:
            return self.answer(None)

        def answer() -> Iterable[Block]:
            answer = query.answer()
            return answer_blocks(answer.view(), answer.charts)

        document = with_query(self.data, **query.options())
        return self.answer(answer, command=query.as_command(), actions=[("As JSON", document)])

    def answer(self, answer: Callable[[], Iterable[Block]] | None, **more: Any) -> Response[str]:
        """The page: with the hint if nothing is asked, with what is wrong, or with the answer's blocks."""
        frame: dict[str, Any] = {
            "here": self.here,
            "title": self.title,
            "form": "question_form.html",
            "asked": self,
            "sections": (),
            **more,
        }
        if answer is None:
            return page("question.html", **frame | {"command": None}, hint=self.hint)
        try:
            blocks = [*answer()]
        except InputError as error:
            return page("question.html", status=422, **frame, problems=str(error).splitlines())
        return blocks_page(blocks, **frame)

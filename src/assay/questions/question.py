"""What a question of the product is: its fields are the options of a command, an address and a function.

    @question
    class Compare(Question):
        \"\"\"Compare B with A.\"\"\"

        a: str = argument()
        metric: str | None = option("Only this metric.", default=None)

        def answer(self) -> Comparisons: ...

`cli/question_command.py` makes the command of it, `web/question_api.py` the address of the JSON API, and
`function` the call from Python. An answer says what it found as blocks, and as the document of `--json`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from os import PathLike
from types import UnionType
from typing import (
    Any,
    ClassVar,
    ParamSpec,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from assay.errors import EXIT_OK
from assay.view.blocks import Block

P = ParamSpec("P")
A = TypeVar("A")
Q = TypeVar("Q", bound="Question")
T = TypeVar("T")
Reference = str | PathLike[str]  # a suite, a session, `suite:system` or an imported set


@dataclasses.dataclass(frozen=True)
class Reads:
    """How text becomes a value, for a type such as `Annotated[str | float, Reads(margin_of, "SHARE")]`.

    read     raises ValueError with the reason
    metavar  what help calls the value
    """

    read: Callable[[str], Any]
    metavar: str


class Answer:
    """What a question is answered with; frozen records derive from it."""

    @property
    def exit_code(self) -> int:
        """0, unless the answer is no or undecided."""
        return EXIT_OK

    def view(self) -> Iterator[Block]:
        """What to say, the most important first."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """What `--json` prints: plain data that names its schema."""
        raise NotImplementedError

    def __str__(self) -> str:
        from assay.view import terminal

        return terminal.plain(terminal.shown(self.view()))

    def _repr_html_(self) -> str:
        from assay.view import html

        return html.fragment(self.view())


class Question:
    """What can be asked.

    all_help  help of `--all`, which shows what the answer's blocks fold; "" if it folds nothing
    """

    all_help: ClassVar[str] = ""

    def answer(self) -> Answer:
        """The answer. Raises InputError if there is none, with the reason."""
        raise NotImplementedError

    def write(self, answer: Any) -> None:
        """Write the files that the command was asked for besides its output; most questions have none."""


def argument(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that is given by its position."""
    return dataclasses.field(default=default, metadata={"argument": True})


def option(
    about: str,
    *,
    default: Any = dataclasses.MISSING,
    metavar: str | None = None,
    local: bool = False,
    output: bool = False,
) -> Any:
    """A field that is given by its name; without a default, it must be given.

    about    its help
    metavar  what help calls the value
    local    names something on this machine: no address has it
    output   a file that the command writes; the function returns the answer instead
    """
    metadata = {"help": about, "metavar": metavar, "local": local or output, "output": output}
    return dataclasses.field(default=default, kw_only=True, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(argument, option))
def question(kind: type[T]) -> type[T]:
    """Makes a frozen dataclass of a question."""
    return dataclasses.dataclass(frozen=True)(kind)


def function(kind: Callable[P, Q], answer: Callable[[Q], A]) -> Callable[P, A]:
    """The call from Python: the question's fields are its parameters.

    answer  the method that answers
    """

    def ask(*args: P.args, **options: P.kwargs) -> A:
        return answer(kind(*args, **options))

    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    types = {name: _written(hint) for name, hint in get_type_hints(kind).items()}
    helps = {f.name: f.metadata.get("help") for f in fields}
    outputs = {f.name for f in fields if f.metadata.get("output")}
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.name not in outputs]
    signature = inspect.Signature(
        [parameter.replace(annotation=types[parameter.name]) for parameter in parameters],
        return_annotation=inspect.signature(answer).return_annotation,
    )
    ask.__name__ = ask.__qualname__ = kind.__name__.lower()
    ask.__module__ = kind.__module__
    ask.__signature__ = signature  # type: ignore[attr-defined]
    ask.__annotations__ = {**types, "return": signature.return_annotation}
    ask.__doc__ = "\n".join(
        [
            inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0],
            "",
            *(f"{p.name}  {helps[p.name]}" for p in parameters if helps[p.name]),
            "",
            "Raises InputError if there is no answer, with the reason.",
        ]
    )
    return ask


def _written(hint: Any) -> str:
    """A type as its author would write it: `str | float | None`."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(_written, get_args(hint)))
    return "None" if hint is type(None) else inspect.formatannotation(hint).removeprefix("os.")

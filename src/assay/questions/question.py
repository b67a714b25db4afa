"""What a question of the product is: its fields are the options of a command, an address and a function.

    @question
    class Compare(Question):
        \"\"\"Compare B with A.\"\"\"

        a: str = argument()
        metric: str | None = option("Only this metric.", default=None)

        def answer(self) -> Comparisons: ...

`cli/question_command.py` makes the command of it, `question_handler` in `web/json_api.py` the address of the
JSON API, and `function` the call from Python. An answer says what it found as blocks, and as the document of
`--json`.
"""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import PurePath
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from assay.errors import EXIT_OK, InputError
from assay.questions.evidence import each
from assay.view.blocks import Block, Verbatim

if TYPE_CHECKING:
    from assay.view.blocks import Chart

P = ParamSpec("P")
A = TypeVar("A")
Q = TypeVar("Q", bound="Question")
T = TypeVar("T")
Reference = str | PathLike[str]  # a suite, a session, `suite:system` or an imported set
RUNS = "Directory for the runs. [default: $ASSAY_RUNS or ./runs]"  # help of the field `runs`
QUIET = "Show nothing before the results."  # help of the field `quiet`


@dataclasses.dataclass(frozen=True)
class Reads:
    """How text becomes a value, for a type such as `Annotated[str | float, Reads(margin_of, "SHARE")]`.

    read     raises ValueError with the reason
    metavar  what help calls the value
    several  whether it reads all values of a repeatable option together
    """

    read: Callable[[Any], Any]
    metavar: str
    several: bool = False


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text} is not a whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(f"{text} is not above 0")
    return value


def _moment(text: str) -> str:
    from assay.units import moment

    moment(text)
    return text


Count = Annotated[int, Reads(_count, "N")]
Positive = Annotated[float, Reads(_positive, "NUMBER")]
Moment = Annotated[str | float, Reads(_moment, "WHEN")]  # a date or an age, or seconds since the epoch


class Answer:
    """What a question is answered with; frozen records derive from it."""

    @property
    def exit_code(self) -> int:
        """0, unless the answer is no or undecided."""
        return EXIT_OK

    @property
    def notes(self) -> Sequence[str]:
        """Lines for standard error: what went wrong besides, or was written."""
        return ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        """For a page or a notebook; most answers have none."""
        return ()

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


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What a question shows that goes on, one of many.

    lines      what is new
    data       the same for `--json`, each a line
    screen     blocks in place of the last ones, on a terminal, instead of lines
    is_whole   whether they take the whole screen
    is_last    whether the screen ends before the lines
    notes      lines for standard error
    exit_code  if nothing follows
    """

    lines: tuple[str, ...] = ()
    data: tuple[Mapping[str, Any], ...] = ()
    screen: tuple[Block, ...] = ()
    is_whole: bool = False
    is_last: bool = False
    notes: tuple[str, ...] = ()
    exit_code: int = EXIT_OK


@dataclasses.dataclass(frozen=True)
class FileText(Answer):
    """The text of a file, for another program."""

    text: str

    def view(self) -> Iterator[Block]:
        """The text."""
        yield Verbatim(self.text)

    def document(self) -> dict[str, Any]:
        """None: the text is for programs already."""
        raise InputError("--json: this prints a file for another program; leave it out")


class Question:
    """What can be asked.

    all_help  help of `--all`, which shows what the answer's blocks fold; "" if it folds nothing
    has_json  whether its command has `--json`
    explains_file  whether the command shows the answer, on standard error, next to a file's content

    A question of options that don't fit together is a ValueError, raised by its `__post_init__`.
    """

    all_help: ClassVar[str] = ""
    has_json: ClassVar[bool] = True
    explains_file: ClassVar[bool] = False

    def answer(self) -> Answer:
        """The answer. Raises InputError if there is none, with the reason."""
        raise NotImplementedError

    @contextmanager
    def answering(self) -> Iterator[Answer]:
        """A context with the answer, in which the command shows it; what goes on then is after the yield."""
        yield self.answer()

    def snapshots(self, *, live: bool) -> Iterator[Snapshot] | None:
        """What the command shows again and again, until it ends or Ctrl-C; None if it shows the answer.

        live  whether a terminal shows it
        """
        return None

    def write(self, answer: Any) -> Answer | bytes:
        """Write the files that the command was asked for.

        Returns what the command prints: an answer, or a file's content and nothing else.
        """
        return answer  # type: ignore[no-any-return]

    def options(self) -> dict[str, Any]:
        """What is asked: each field that is not its default, without what is local to a machine."""
        fields = [f for f in dataclasses.fields(self) if not f.metadata.get("local")]  # type: ignore[arg-type]
        values = {f.name: getattr(self, f.name) for f in fields}
        return {f.name: values[f.name] for f in fields if values[f.name] not in (None, False, (), f.default)}

    def as_command(self) -> str:
        """The command that asks the same."""
        parts, options = ["assay", type(self).__name__.lower()], self.options()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if (value := options.get(field.name)) is not None:
                values = value if isinstance(value, tuple) else (value,)
                name = [] if field.metadata.get("argument") else [f"--{field.name.replace('_', '-')}"]
                parts += name if value is True else [part for each in values for part in (*name, str(each))]
        return shlex.join(parts)


def argument(
    *, default: Any = dataclasses.MISSING, metavar: str | None = None, parameters: tuple[str, ...] = ()
) -> Any:
    """A field that is given by its position; a tuple has all that are given.

    metavar     what help calls it
    parameters  of the function, for a tuple that is never empty: that for the first, and that for the others
    """
    metadata = {"argument": True, "metavar": metavar, "parameters": parameters}
    return dataclasses.field(default=default, metadata=metadata)


def option(
    about: str,
    *,
    default: Any = dataclasses.MISSING,
    metavar: str | None = None,
    names: tuple[str, ...] = (),
    local: bool = False,
    file: bool = False,
    output: bool = False,
    positional: bool = False,
    variable: str = "",
) -> Any:
    """A field that is given by its name; without a default, it must be given.

    about       its help
    metavar     what help calls the value
    names       of the command's option, if not the field's: `("-o", "--output")`
    local       names something on this machine: no address has it
    file        an existing file on this machine
    output      of the command alone, such as a file that it writes: the function has no such parameter
    positional  the function also takes it by its position
    variable    of the environment, which the command uses if the option isn't given
    """
    metadata = {"help": about, "metavar": metavar, "names": names, "file": file, "output": output}
    metadata |= {"local": local or file or output, "variable": variable}
    return dataclasses.field(default=default, kw_only=not positional, metadata=metadata)


def supplied(
    what: Literal["sessions", "lines", "command line", "commands", "build steps", "preview", "consent"],
    *,
    default: Any,
) -> Any:
    """A field that the command fills in; from Python, it is a parameter like others.

    what  sessions: makes the receiver of each session's events; lines: prints one on standard error, both
          unless there is a field `quiet` that is true; command line: what was typed; commands: answers
          `assay --server`; build steps: shows an image's build; preview: shows what is about to be done;
          consent: asks for it
    """
    metadata = {"supplied": what, "local": True, "output": what in ("preview", "consent")}
    return dataclasses.field(default=default, kw_only=True, metadata=metadata)


def progress_line(line: Callable[..., str], *, default: None) -> Any:
    """A field for a function that is called while the question is answered.

    line  what the command shows meanwhile, from the arguments of a call
    """
    return dataclasses.field(default=default, kw_only=True, metadata={"progress": line, "local": True})


@dataclass_transform(frozen_default=True, field_specifiers=(argument, option, progress_line, supplied))
def question(kind: type[T]) -> type[T]:
    """Makes a frozen dataclass of a question."""
    return dataclasses.dataclass(frozen=True)(kind)


def function(kind: Callable[P, Q], answer: Callable[[Q], A]) -> Callable[P, A]:
    """The call from Python: the question's fields are its parameters.

    answer  the method that answers
    """
    fields = [f for f in dataclasses.fields(kind) if not f.metadata.get("output")]  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    parameters = [p for field in fields for p in _parameters(field, _written(hints[field.name]))]
    signature = inspect.Signature(parameters, return_annotation=inspect.signature(answer).return_annotation)

    def ask(*args: P.args, **options: P.kwargs) -> A:
        values = signature.bind(*args, **options).arguments
        for field in fields:
            if names := field.metadata.get("parameters"):
                values[field.name] = tuple(each(values.pop(names[0]), *values.pop(names[1], ())))
        try:
            query = kind(**values)  # type: ignore[call-arg]
        except ValueError as error:
            raise InputError(str(error)) from error
        return answer(query)

    name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    ask.__name__ = ask.__qualname__ = f"{name}_" if keyword.iskeyword(name) else name
    ask.__module__ = kind.__module__
    ask.__signature__ = signature  # type: ignore[attr-defined]
    ask.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": signature.return_annotation}
    helps = {field.name: field.metadata.get("help") for field in fields}
    ask.__doc__ = "\n".join(
        [
            inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0],
            "",
            *(f"{name}  {about}" for name, about in helps.items() if about),
            "",
            "Raises InputError if there is no answer, with the reason.",
        ]
    )
    return ask


def function_of_many(kind: Callable[..., Q], answer: Callable[[Q], A]) -> Callable[..., A]:
    """The same for a question whose last argument may be given many times: `report(a, b, margin="2%")`."""
    return function(kind, answer)


def form_of(output: str | PathLike[str] | None, form: str | None, endings: Mapping[str, str]) -> str:
    """The format to write: the named one, else by the file name's extension, else the first.

    endings  extension → format, such as `.md` → markdown

    Raises ValueError if the extension belongs to a format that can't be written.
    """
    ending = "" if output is None else PurePath(output).suffix.lower()
    if form is not None or ending in endings:
        return form or endings[ending]
    if ending[1:].isalnum() and not ending[1:].isdigit():  # page-v3.1 has no extension
        raise ValueError(f"{output}: {ending} can't be written; write {' or '.join(endings)}")
    return next(iter(endings.values()))


def read_value(name: str, value: Any, read: Callable[[Any], T]) -> T | None:
    """The value as read, None for None. Raises InputError with its name if it can't be read."""
    try:
        return None if value is None else read(value)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def reads_of(hint: Any) -> Reads | None:
    """How a type reads its text, if it says that."""
    kinds = [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in alternatives(hint)]
    extras = (extra for kind in kinds if get_origin(kind) is Annotated for extra in get_args(kind)[1:])
    return next((extra for extra in extras if isinstance(extra, Reads)), None)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the only type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _parameters(field: dataclasses.Field[Any], written: str) -> Iterator[inspect.Parameter]:
    """One parameter, or two if the function takes the first of many by itself."""
    if field.metadata.get("argument") and written.startswith("tuple["):
        of_one = written.removeprefix("tuple[").removesuffix(", ...]")
        *first, rest = field.metadata["parameters"] or (field.name,)
        for name in first:
            yield inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=f"{of_one} | Sequence[{of_one}]"
            )
        yield inspect.Parameter(rest, inspect.Parameter.VAR_POSITIONAL, annotation=of_one)
        return
    kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    yield inspect.Parameter(field.name, kind, default=default, annotation=written)


def _written(hint: Any) -> str:
    """A type as its author would write it: `str | float | None`."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(_written, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"tuple[{_written(get_args(hint)[0])}, ...]"
    if hint is type(None):
        return "None"
    return re.sub(r"\b(\w+\.)+(?=[A-Z])", "", inspect.formatannotation(hint)).replace("NoneType", "None")

"""Pages with a form and, below it, the answer: their address is the question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Response

from assay.errors import InputError
from assay.web.rendering import page


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
    hint      what to ask, shown while nothing is asked
    examples  (words, address) of questions that have an answer here
    """

    here: str
    title: str
    verb: str
    hint: str
    fields: Sequence[FormField]
    examples: Sequence[tuple[str, str]] = ()

    def answer(self, answer: Callable[[], Mapping[str, Any]] | None, **more: Any) -> Response[str]:
        """The page: with the hint if nothing is asked, with what is wrong, or with the answer.

        answer  gives what the template shows; `template` replaces the usual one
        """
        frame: dict[str, Any] = {
            "here": self.here,
            "title": self.title,
            "form": "question_form.html",
            "asked": self,
            **more,
        }
        if answer is None:
            return page("question.html", **frame | {"command": None}, hint=self.hint)
        try:
            shown = dict(answer())
        except InputError as error:
            return page("question.html", status=422, **frame, problems=str(error).splitlines())
        return page(shown.pop("template", "question.html"), **frame | shown)

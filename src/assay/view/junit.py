"""A gate's answers as JUnit XML, which every CI system can show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.analyse.comparison.sides import OpenQuestion
from assay.analyse.comparison.verdict import GateVerdict
from assay.records import Point
from assay.view import figures

# Characters that XML 1.0 can't represent, not even escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    name: str,
    judged: Sequence[GateVerdict],
    missing: Sequence[tuple[Point, str]],
    open_questions: Sequence[OpenQuestion] = (),
) -> str:
    """One test case per comparison: a failure if it is worse, an error if it is undecided or missing."""
    lacking = [(_place(point), point.benchmark, why) for point, why in missing]
    lacking += [
        (figures.metric(question.metric), question.benchmark, str(question)) for question in open_questions
    ]
    worse = sum(verdict.answer == "worse" for verdict in judged)
    open_ = sum(verdict.answer == "undecided" for verdict in judged) + len(lacking)
    counts = {"tests": str(len(judged) + len(lacking)), "failures": str(worse), "errors": str(open_)}
    suites = Element("testsuites", {"name": "assay gate", **counts})
    suite = SubElement(suites, "testsuite", {"name": _valid_text(name), **counts, "skipped": "0"})
    for verdict in judged:
        case = _case(suite, verdict.comparison.point.benchmark, _place(verdict.comparison.point))
        if verdict.answer != "holds":
            kind = "failure" if verdict.answer == "worse" else "error"
            SubElement(case, kind, {"type": verdict.answer, "message": _valid_text(verdict.reason)})
        SubElement(case, "system-out").text = _valid_text(_describe_verdict(verdict))
    for place, benchmark, why in lacking:
        SubElement(_case(suite, benchmark, place), "error", {"type": "missing", "message": _valid_text(why)})
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, benchmark: str, name: str) -> Element:
    return SubElement(suite, "testcase", {"classname": _valid_text(benchmark), "name": _valid_text(name)})


def _place(point: Point) -> str:
    return f"{figures.metric(point.metric)} on {figures.where(point)}"


def _describe_verdict(verdict: GateVerdict) -> str:
    """The measurements behind the answer, and its doubts."""
    c = verdict.comparison
    lines = [
        f"{c.b} over {c.a}: {figures.compared(c)}, n = {c.n[0]} + {c.n[1]}",
        verdict.reason,
        *(f"! {doubt.code}: {doubt.evidence}" for doubt in c.doubts),
    ]
    return "\n".join(lines)


def _valid_text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)

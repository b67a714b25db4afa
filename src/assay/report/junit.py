"""A gate's answers as JUnit XML, which every CI system shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.analyse.gate import Judged
from assay.records import Point
from assay.report import figures

# What XML 1.0 has no way to write, not even escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(name: str, judged: Sequence[Judged], missing: Sequence[tuple[Point, str]]) -> str:
    """One test case a comparison: a failure where it is worse, an error where it is undecided or missing."""
    worse = sum(one.answer == "worse" for one in judged)
    open_ = sum(one.answer == "undecided" for one in judged) + len(missing)
    counts = {"tests": str(len(judged) + len(missing)), "failures": str(worse), "errors": str(open_)}
    suites = Element("testsuites", {"name": "assay gate", **counts})
    suite = SubElement(suites, "testsuite", {"name": _plain(name), **counts, "skipped": "0"})
    for one in judged:
        case = _case(suite, one.comparison.point)
        if one.answer != "holds":
            kind = "failure" if one.answer == "worse" else "error"
            SubElement(case, kind, {"type": one.answer, "message": _plain(one.reason)})
        SubElement(case, "system-out").text = _plain(_told(one))
    for point, why in missing:
        SubElement(_case(suite, point), "error", {"type": "missing", "message": _plain(why)})
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, point: Point) -> Element:
    name = f"{figures.metric(point.metric)} on {figures.where(point)}"
    return SubElement(suite, "testcase", {"classname": _plain(point.benchmark), "name": _plain(name)})


def _told(one: Judged) -> str:
    """The figures behind the answer, and what is to be doubted."""
    c = one.comparison
    lines = [
        f"{c.b} over {c.a}: {figures.ratio(c.deciding)}, n = {c.n[0]} + {c.n[1]}",
        one.reason,
        *(f"! {doubt.code}: {doubt.evidence}" for doubt in c.doubts),
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)

"""Blocks as HTML without script and style of their own: for a page, and for a cell of a notebook."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

from assay import redact
from assay.view.blocks import (
    Block,
    Bullets,
    Chart,
    Claim,
    Claims,
    Doubts,
    Facts,
    Fold,
    Heading,
    Lead,
    Link,
    NamedText,
    Paragraph,
    Pictures,
    Table,
    TableRow,
    Verbatim,
)
from assay.view.folding import shortened

MOST_PLACES = 2  # named per item of evidence; more are only counted
WIDEST_NAME = 36  # characters of a word in a page's table
_CODE = re.compile("`([^`]+)`")
_UNSCRIPTED = (
    '<noscript><p class="warning">The charts are drawn by a script inside this page. Their values are also '
    "in the text below each caption and in the tables.</p></noscript>"
)


def fragment(blocks: Iterable[Block]) -> str:
    """The blocks for a cell of a notebook, which draws no chart: their words are shown."""
    return Html(is_page=False).render(blocks)


def table(block: Table) -> str:
    """One table, with all columns, for a cell of a notebook."""
    return fragment([block])


class Html:
    """Blocks one after another; what is folded is in a `details` element.

    hide        removes names from texts; secrets are removed in any case
    doubts_url  of the page whose parts explain each doubt; "" if there is none
    is_page     whether it is in a page, with its style and the script that draws charts

    `sections` are the anchors and headings of what was rendered so far, `charts` is how many charts.
    """

    def __init__(
        self, hide: Callable[[str], str] = str, doubts_url: str = "", *, is_page: bool = True
    ) -> None:
        self._hide, self._doubts_url, self._is_page = hide, doubts_url, is_page
        self.sections: list[tuple[str, str]] = []
        self.charts = 0
        self._explained: set[str] = set()  # doubts that have an anchor

    def render(self, blocks: Iterable[Block], heading: str = "") -> str:
        """The HTML; `heading` is that of the section that the blocks are in."""
        parts: list[str] = []
        is_open = False
        for kind, group in groupby(blocks, key=type):
            if kind is Chart:
                parts.append(self._figures(block for block in group if isinstance(block, Chart)))
                continue
            if kind is Pictures:
                shown = "".join(self._pictures(block) for block in group if isinstance(block, Pictures))
                parts.append(f'<ul class="frames">{shown}</ul>')
                continue
            for block in group:
                if isinstance(block, Heading):
                    heading = block.text
                    if block.section:
                        parts.append("</section>" * is_open)
                        is_open = True
                parts += self._block(block, heading)
        return "".join(parts) + "</section>" * is_open

    def text(self, text: str) -> str:
        """Text without secrets and names, escaped."""
        return escape(redact.text(self._hide(text)))

    def marked(self, text: str) -> str:
        """The same with code between backticks."""
        return _CODE.sub(r"<code>\1</code>", self.text(text))

    def _block(self, block: Block, heading: str) -> Iterator[str]:
        match block:
            case Lead(text, tone, action):
                opening = f"<strong>{self.text(action)}.</strong> " if action else ""
                style = f"recommendation {tone}" if action else "lead"
                yield f'<p class="{style}">{opening}{self.text(text)}</p>'
            case Heading(text, section):
                yield self._section(text, section) if section else f"<h3>{self.text(text)}</h3>"
            case Paragraph():
                yield self._paragraph(block)
            case Bullets(items):
                are_links = any(isinstance(item, Link) for item in items)
                entries = "".join(
                    f"<li>{self._link(item) if isinstance(item, Link) else self.marked(item)}</li>"
                    for item in items
                )
                yield f'<ul class="{"choices" if are_links else "evidence"}">{entries}</ul>'
            case Facts(facts, short):
                rows = "".join(map(self._fact, facts))
                yield f'<dl class="{"about" if short else "failures"}">{rows}</dl>'
            case Table():
                yield self._table(block, heading)
            case Claims():
                yield from self._claims(block)
            case Doubts(doubts):
                yield self._doubts(block) if doubts else ""
            case Verbatim(text):
                yield f'<pre tabindex="0"><code>{self.text(text)}</code></pre>'
            case Fold(short, full, more):
                yield self.render(short, heading)
                if more:
                    inner = self.render(full, heading)
                    yield f"<details><summary>{self.text(more)}</summary>{inner}</details>"

    def _section(self, title: str, section: str) -> str:
        self.sections.append((section, title))
        labelled = f'<section id="{section}" aria-labelledby="{section}-title">'
        return f'{labelled}<h2 id="{section}-title">{self.text(title)}</h2>'

    def _paragraph(self, block: Paragraph) -> str:
        lines = self.marked(block.text.strip()).replace("\n", "<br/>")
        if not lines:
            return ""
        if block.tone == "fails":
            return f'<p class="warning">{lines}</p>'
        if block.tone == "dim" or block.indented:
            return f'<p class="evidence">{lines}</p>'
        return f"<p><strong>{lines}</strong></p>" if block.tone else f"<p>{lines}</p>"

    def _link(self, link: Link) -> str:
        return f'<a href="{escape(link.url)}">{self.text(link.text)}</a>'

    def _fact(self, fact: NamedText) -> str:
        links = " · ".join(map(self._link, fact.links))
        text = "<br/>".join(filter(None, (self.marked(fact.text), links)))
        return f"<div><dt>{self.text(fact.name)}</dt><dd>{text}</dd></div>"

    def _claims(self, block: Claims) -> Iterator[str]:
        claims = "".join(f"<li{self._claim(claim)}</li>" for claim in block.claims)
        yield f'<ol class="answers">{claims}</ol>'
        if block.doubts:
            whose = "Doubts about all of these:" if len(block.claims) > 1 else "Doubts:"
            yield self._codes(whose, block.doubts)

    def _claim(self, claim: Claim) -> str:
        symbol = f'<span aria-hidden="true">{claim.symbol}</span> ' if claim.symbol else ""
        mark = f' <span class="mark {claim.severity}">{claim.severity}</span>' if claim.severity else ""
        why = "".join(f"<li>{self.text(reason)}</li>" for reason in claim.why)
        verdict = f'<p class="verdict">{symbol}{self.text(claim.verdict)}{mark}</p>'
        return (
            f' class="answer {claim.kind}">{verdict}<div>'
            f'<p class="sentence">{self.text(claim.sentence)}</p>'
            f'<p class="evidence">{self.text(claim.evidence)}</p>'
            + (f'<p class="evidence">Why slower:</p><ul class="evidence">{why}</ul>' if why else "")
            + (self._codes("Doubts:", claim.doubts) if claim.doubts else "")
            + "</div>"
        )

    def _codes(self, opening: str, codes: Sequence[str]) -> str:
        links = " ".join(f'<a class="doubt" href="#doubt-{code}">{code}</a>' for code in map(escape, codes))
        return f'<p class="evidence">{opening} {links}</p>'

    def _doubts(self, block: Doubts) -> str:
        """Each code with its evidence and its places, and the remedy once."""
        from assay.analyse.doubts import KINDS  # late: most answers have no doubt

        entries = []
        for group in block.by_code():
            code, evidence = (
                group[0][0].code,
                [
                    f"<p>{self.marked(doubt.evidence)}{self._reach(places, block.total)}</p>"
                    for doubt, places in group
                ],
            )
            others = "".join(evidence[1:])
            more = f"<details><summary>{len(group) - 1} more like this</summary>{others}</details>"
            name, severity = escape(code), KINDS[code].severity
            linked = f'<a href="{self._doubts_url}/{name}">{name}</a>' if self._doubts_url else name
            anchor = f' id="doubt-{name}"' if self._is_page and code not in self._explained else ""
            self._explained.add(code)
            entries.append(
                f'<div{anchor}><dt>{linked} <span class="severity {severity}">{severity}</span></dt>'
                f"<dd>{evidence[0]}{more if others else ''}"
                f'<p class="remedy">{self.marked(group[0][0].remedy)}</p></dd></div>'
            )
        return f'<dl class="doubts">{"".join(entries)}</dl>'

    def _reach(self, places: tuple[str, ...] | int, total: int) -> str:
        if isinstance(places, int):
            return f' <span class="reach">({places} of {total})</span>' if 0 < places < total else ""
        if len(places) > MOST_PLACES:
            return f' <span class="reach many">({len(places)} results)</span>'
        return f' <span class="reach">({self.text("; ".join(places))})</span>'

    def _figures(self, charts: Iterable[Chart]) -> str:
        warning = _UNSCRIPTED if self._is_page and not self.charts else ""
        return f'{warning}<div class="charts">{"".join(map(self._figure, charts))}</div>'

    def _figure(self, chart: Chart) -> str:
        self.charts += 1
        caption = f"<figcaption>{self.text(chart.caption)}</figcaption>"
        if not self._is_page:
            return f"<figure>{caption}<p>{self.text(chart.words)}</p></figure>"
        name, data = f"chart-{self.charts}", _as_data(chart.spec, self._hide)
        return (
            f'<figure class="{"wide " * chart.wide}{escape(chart.kind)}">{caption}'
            f'<div class="plot" data-spec="{name}" aria-describedby="{name}-words"></div>'
            f'<p class="words" id="{name}-words">{self.text(chart.words)}</p>'
            f'<script type="application/json" id="{name}">{data}</script></figure>'
        )

    def _pictures(self, block: Pictures) -> str:
        images = "".join(
            f'<img src="data:image/jpeg;base64,{base64.b64encode(picture.jpeg).decode()}" '
            f'alt="{self.text(picture.text)}">'
            for picture in block.pictures
        )
        text = f"<strong>{self.text(block.text)}</strong><br/>" if block.text else ""
        name = f'<p class="evidence">{text}{self.text(block.name)}</p>'
        return f'<li><div class="pictures">{images}</div>{name}</li>'

    def _table(self, block: Table, heading: str) -> str:
        """With all columns; the heading of its section names a table without a caption."""
        number = ["" if column in block.words else ' class="n"' for column in range(len(block.columns))]
        head = "".join(
            f'<th scope="col"{kind}>{self._name(name)}</th>' if name else "<td></td>"
            for name, kind in zip(block.columns, number, strict=True)
        )
        bodies = []
        for body in block.bodies:
            title = f'<th scope="rowgroup" colspan="{len(block.columns)}">{self.text(body.heading)}</th>'
            group = f'<tr class="group">{title}</tr>' if body.title else ""
            rows = "".join(self._row(row, number, block.verdicts) for row in body.rows)
            bodies.append(f"<tbody>{group}{rows}</tbody>")
        caption = f"<caption>{self.text(block.caption)}</caption>" if block.caption else ""
        label = self.text(block.caption or heading or ", ".join(filter(None, block.columns)))
        prose = ' class="prose"' * (len(block.words) == len(block.columns))
        return (
            f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table{prose}>{caption}'
            f"<thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
        )

    def _row(self, row: TableRow, number: Sequence[str], verdicts: int | None) -> str:
        judged = ' class="said"'
        first, *rest = map(self._name, row.cells)
        cells = "".join(
            f"<td{judged if row.verdict and column == verdicts else kind}>{cell}</td>"
            for column, (cell, kind) in enumerate(zip(rest, number[1:], strict=True), start=1)
        )
        verdict = f' class="{escape(row.verdict)}"' if row.verdict else ""
        return f'<tr{verdict}><th scope="row">{first}</th>{cells}</tr>'

    def _name(self, text: str) -> str:
        """A cell: on a page, a name wider than a column is shortened, with the full name as its title."""
        whole = redact.text(self._hide(text))
        if not self._is_page or len(whole) <= WIDEST_NAME or " " in whole:
            return escape(whole)
        return f'<span title="{escape(whole)}">{escape(shortened(whole, WIDEST_NAME))}</span>'


def _as_data(value: Any, hide: Callable[[str], str]) -> str:
    """JSON that is safe inside a script element, whatever a log put into it."""
    plain = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: _escaped(match[0]), redact.text(hide(plain)))


_UNSAFE = re.compile(r"[^\x00-\x7f]|[<>&]")


def _escaped(character: str) -> str:
    """The character as a JSON string writes it, in ASCII and without markup."""
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]

"""What someone else gets: the first sentence, marks, cost, logs beside the page, and no name of a machine."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_report import compared, made
from test_secret_reference import assay as command_line

from assay.analyse.doubts import KINDS
from assay.analyse.spending import cost_of_a_result, energy_cost_of_a_result
from assay.cli import assay
from assay.questions.report import _summarized
from assay.records import Doubt, Estimate, Price
from assay.redact.pseudonyms import Pseudonyms, anonymous
from assay.units import counted
from assay.view import costs, report
from assay.view.contents import Contents
from assay.view.document import log_html
from assay.view.sentences.recommendation import recommendation
from assay.view.sentences.sentences import questions

BIASED = Doubt("busy-neighbours", "others used 1.8 of 2 CPUs", "run again on an idle machine")


def asked(*verdicts: str, doubts: tuple[Doubt, ...] = ()) -> Contents:
    """Contents about these verdicts alone."""
    compared_ = tuple(
        compared(verdict, doubts=doubts, size=number) for number, verdict in enumerate(verdicts)
    )
    return replace(
        made(), comparisons=compared_, questions=questions(compared_), requirements=(), failures=()
    )


@pytest.mark.parametrize(
    ("verdicts", "action", "words"),
    [
        (["equivalent"], "Accept", "openshift is as fast as bare-metal, within 2 %, in the only comparison."),
        (["equivalent", "faster"], "Accept", "at least as fast as bare-metal in both comparisons."),
        (
            ["faster", "faster", "faster"],
            "Accept",
            "faster than bare-metal in all 3 comparisons.",
        ),
        (
            ["slower", "equivalent"],
            "Do not accept",
            "slower than bare-metal in 1 of 2 comparisons.",
        ),
        (["undecided", "equivalent"], "Repeat", "1 of 2 comparisons is undecided"),
        ([], "Nothing to decide", "add a second system, or requirements"),
    ],
)
def test_the_first_sentence_says_what_to_do(verdicts: list[str], action: str, words: str) -> None:
    advice = recommendation(asked(*verdicts))
    assert advice.action == action
    assert words in advice.sentence


def test_a_biased_answer_is_marked_and_the_advice_is_for_now() -> None:
    contents = asked("equivalent", doubts=(BIASED,))
    advice = recommendation(contents)
    assert (advice.action, advice.severity) == ("Accept for now", "biased")
    assert "busy-neighbours may have shifted" in advice.sentence
    text = report.html_page(contents)
    assert '<span class="mark biased">biased</span>' in text
    assert text.index("Accept for now") < text.index('id="verdicts"')
    assert "equivalent BIASED" in report.markdown_text(contents)


def test_an_invalid_figure_outweighs_every_verdict() -> None:
    code = next(code for code, of in KINDS.items() if of.severity == "invalid")
    advice = recommendation(asked("faster", doubts=(replace(BIASED, code=code),)))
    assert (advice.action, advice.severity) == ("Fix first", "invalid")
    assert code in advice.sentence


@pytest.mark.parametrize("text", ["2.5", "2.5 EUR", "EUR/node-hour", "-1 EUR/node-hour", "0 EUR/node-hour"])
def test_a_price_without_currency_or_what_it_is_for_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="EUR/accelerator-hour"):
        Price.parse(text)


def test_energy_costs_what_the_gpus_used_for_a_million_images_or_a_training() -> None:
    each = Estimate(0.36, 0.18, 0.72, 5, "J/images")
    found = energy_cost_of_a_result(each, "throughput", "images", 0.25)
    assert found is not None
    assert found[1] == "million images"
    assert (found[0].value, found[0].low, found[0].high) == pytest.approx((0.025, 0.0125, 0.05))
    found = energy_cost_of_a_result(Estimate(7.2e6, None, None, 1, "J"), "time_to_train", "", 0.25)
    assert found is not None
    assert (found[1], found[0].value) == ("training", pytest.approx(0.5))
    assert energy_cost_of_a_result(Estimate(7.2e6, None, None, 1, "J"), "accuracy", "", 0.25) is None
    assert str(Price.parse("0.25 EUR/kWh")) == "0.25 EUR/kWh"


def test_a_million_images_cost_what_their_time_on_all_accelerators_costs() -> None:
    found = cost_of_a_result(Estimate(1000.0, 500.0, 2000.0, 5, "images/s"), "throughput", "images/s", 8, 3.6)
    assert found is not None
    estimate, what = found
    assert what == "million images"
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((8.0, 4.0, 16.0))
    assert cost_of_a_result(Estimate(0.7, None, None, 5, ""), "accuracy", "", 8, 3.6) is None


def test_cost_is_shown_where_a_price_is_stated_and_nowhere_else() -> None:
    contents = made()
    assert costs.sentence(contents) == ""
    assert costs.tables(contents) == ()
    first = next(iter(contents.sides))
    priced = replace(contents, prices={first: Price(2.5, "EUR", "accelerator")})
    assert f"{first} " in costs.sentence(priced)
    assert "EUR per " in costs.sentence(priced)
    assert {row.cells[0] for table in costs.tables(priced) for body in table.bodies for row in body.rows} == {
        first
    }


def test_machines_keep_a_number_each_and_people_none() -> None:
    names = Pseudonyms(
        {"gpu07.example.org": "host-1", "gpu07": "host-1", "gpu08": "host-2"}, ("1b2c-3d",), ("alice",)
    )
    said = "gpu07.example.org gpu08: alice@gpu07 read /home/alice/x, /scratch/alice/y, boot 1b2c-3d, gpu071"
    assert names.text(said) == (
        "host-1 host-2: user@host-1 read ~/x, /scratch/user/y, boot (left out), gpu071"
    )


def test_what_machines_are_called_is_read_from_the_runs_and_their_commands() -> None:
    results = [r for side in made().sides.values() for r in side]
    found = anonymous(results, ["login.example.org"], ["assay run /home/bob/suite.yaml"], ["bare-metal"])
    assert found.hosts["login"] == found.hosts["login.example.org"] == "host-1"
    assert found.users == ("bob",)
    assert "bare-metal" not in found.hosts


SCRIPT = """\
import random
print("</pre><script>alert(1)</script> /home/alice/data")
print("images/sec: %.2f" % (100 * random.uniform(0.97, 1.03)))
"""


@pytest.fixture
def value() -> str:
    return f"planted-{secrets.token_hex(12)}"


@pytest.fixture
def ran(tmp_path: Path, value: str) -> Path:
    (tmp_path / "program.py").write_text(SCRIPT + f"print('{value}')\n")
    metric = {"pattern": "images/sec: (?P<value>[0-9.]+)", "unit": "images/s", "better": "higher"}
    argv = ["{python}", "program.py", "--url", f"https://u:{value}@host/x"]
    params = {"argv": argv, "files": ["program.py"], "metrics": {"throughput": metric}}
    suite = {"suite": "demo", "workload": "command", "params": params, "repeats": 1}
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    (tmp_path / "systems.yaml").write_text("here: {launcher: local, price: 2.50 EUR/accelerator-hour}\n")
    done = command_line(tmp_path, "run", "suite.yaml")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_a_page_with_logs_links_each_beside_it_escaped_and_without_secrets(
    ran: Path,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ran)
    done = CliRunner().invoke(assay, ["report", "demo", "-o", "sent/page.html", "--with-logs"])
    assert done.exit_code == 0, done.output
    text = (ran / "sent/page.html").read_text()
    [log] = list((ran / "sent/page-logs").rglob("rank-0.log.html"))
    assert f'href="{log.relative_to(ran / "sent")}"' in text
    said = log.read_text()
    assert "<script" not in said
    assert "&lt;script&gt;alert(1)" in said
    assert "~/data" in said
    assert value not in said + text
    assert "(redacted)" in said
    assert "from 1 run." in text
    assert "2.5 EUR/accelerator-hour" in text
    assert "Left out: host names" in text


def test_a_page_names_its_machine_only_where_that_is_requested(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ran)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for options, shown in (([], False), (["--with-identity"], True)):
        done = CliRunner().invoke(assay, ["report", "demo", "-o", "page.html", *options])
        assert done.exit_code == 0, done.output
        text = (ran / "page.html").read_text()
        assert (boot in text) is shown
        assert ("Left out:" in text) is not shown


def test_a_long_log_keeps_its_ends_and_counts_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.view.document.HEAD_BYTES", 10)
    monkeypatch.setattr("assay.view.document.TAIL_BYTES", 10)
    (tmp_path / "log").write_bytes(b"beginning." + b"x" * 2000 + b"\x1b[31mend.\n")
    text = log_html("run rank-0.log", tmp_path / "log")
    assert "beginning." in text
    assert "2,000 bytes are left out" in text
    assert "\x1b" not in text


def test_many_values_of_a_fact_are_a_range_or_a_count() -> None:
    assert _summarized([1, 2, 3]) == "1, 2, 3"
    assert _summarized([None, "a"]) == "absent, a"
    assert _summarized([0.5, 3.25, 12, 2000]) == "0.5 to 2,000 (4 values)"
    assert _summarized(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_one_run_is_no_plural() -> None:
    assert (counted(1, "run"), counted(0, "run"), counted(12, "run")) == ("1 run", "0 runs", "12 runs")

"""Tables of names: what Assay has, what installed packages add, and what becomes of packages that fail."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import registry
from assay.errors import InputError, PluginError
from assay.registry import EntryPoint, NamedEntries
from plugin_packages import STATED, install, used

Table = NamedEntries[str]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Table]]:
    """A table of words that has one word of its own; packages are installed in tmp_path."""
    monkeypatch.setitem(registry.TABLES, "assay.words", "test_registry:nowhere")  # type: ignore[arg-type]
    with used(tmp_path):
        yield lambda: registry.registry("assay.words", {"own": "string:digits"}, str)


def test_a_name_of_its_own_is_imported_on_first_use_and_needs_no_search(
    table: Callable[[], Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = table()
    monkeypatch.setattr(registry, "_entry_points", lambda _path: pytest.fail("searched"))
    assert words["own"] == "0123456789"
    assert "own" in words


def test_what_a_package_adds_comes_after_what_assay_has(table: Callable[[], Table], tmp_path: Path) -> None:
    install(tmp_path, "more", {"assay.words": {"b": "words_more:B"}}, {"words_more.py": f"{STATED}B = 'bee'"})
    words = table()
    assert [*words] == ["own", "b"]
    assert len(words) == 2
    assert "words_more" not in sys.modules
    assert words["b"] == "bee"
    assert dict(words.items()) == {"own": "0123456789", "b": "bee"}
    assert [*words.part(len).values()] == [10, 3]
    assert words.part(len)["b"] == 3
    with pytest.raises(KeyError):
        words["c"]


def test_a_package_is_named_with_its_version_as_its_metadata_states_them(
    table: Callable[[], Table], tmp_path: Path
) -> None:
    entries = {"assay.words": {"b": "words_more:B [fast]"}, "console_scripts": {"b": "words_more:B"}}
    install(tmp_path, "More-Words", entries, {}, version="2.1rc1", about="Words: more of them")
    table()
    [entry] = [entry for entry in registry.entry_points() if entry.group == "assay.words"]
    assert entry == EntryPoint(
        "assay.words", "b", "words_more:B", "More-Words", "2.1rc1", "Words: more of them", str(tmp_path)
    )
    assert str(entry) == "plug-in More-Words 2.1rc1 (assay.words: b = words_more:B)"


def test_of_a_package_that_is_on_the_path_twice_the_first_counts_as_in_an_import(
    table: Callable[[], Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, version in ((tmp_path / "old", "1"), (tmp_path, "2")):
        text = f"{STATED}B = {version!r}"
        install(
            place, "more", {"assay.words": {"b": "words_more:B"}}, {"words_more.py": text}, version=version
        )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "old")])
    assert table()["b"] == "2"


BAD = {
    "raises": ("1 / 0", "can't be imported: ZeroDivisionError: division by zero ("),
    "leaves": ("raise SystemExit(0)", "can't be imported: SystemExit: 0 ("),
    "lacks": ("import of_nobody", "can't be imported: ModuleNotFoundError: No module named 'of_nobody' ("),
    "broken": ("def", "can't be imported: SyntaxError: invalid syntax"),
    "empty": (STATED, "words_bad:B does not exist; expected a str"),
    "other": (f"{STATED}B = 7", "words_bad:B is a int; expected a str"),
    "older": ("ASSAY_INTERFACE = 0\nB = 'b'", "is written for interface 0; this Assay has interface 1"),
    "newer": ("ASSAY_INTERFACE = 2\nB = 'b'", "is written for interface 2; this Assay has interface 1"),
    "silent": ("B = 'b'", "words_bad states no ASSAY_INTERFACE; this Assay has interface 1"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_package_that_cannot_be_used_is_named_and_leaves_the_others(
    table: Callable[[], Table], tmp_path: Path, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, why = BAD[bad]
    install(tmp_path, "bad", {"assay.words": {"b": "words_bad:B"}}, {"words_bad.py": text}, version="0.3")
    install(tmp_path, "good", {"assay.words": {"g": "words_good:G"}}, {"words_good.py": f"{STATED}G = 'g'"})
    words = table()
    caplog.set_level(logging.WARNING, "assay")
    for _ in range(2):
        assert dict(words.items()) == {"own": "0123456789", "g": "g"}
    expected = f"plug-in bad 0.3 (assay.words: b = words_bad:B): {why}"
    [reported] = caplog.messages
    assert reported.startswith(expected)
    with pytest.raises(PluginError) as raised:
        words["b"]
    assert str(raised.value).startswith(expected)
    assert words["g"] == "g"


def test_the_package_above_a_module_may_state_the_interface(
    table: Callable[[], Table], tmp_path: Path
) -> None:
    files = {"words_p/__init__.py": STATED, "words_p/q.py": "B = 'deep'"}
    install(tmp_path, "more", {"assay.words": {"b": "words_p.q:B"}}, files)
    assert table()["b"] == "deep"


@pytest.mark.parametrize("text", ["import time\ntime.sleep(600)", "while True: pass"])
def test_a_package_whose_import_does_not_end_is_named_after_a_while(
    table: Callable[[], Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(registry, "IMPORT_LIMIT_S", 0.2)
    install(tmp_path, "slow", {"assay.words": {"b": "words_slow:B"}}, {"words_slow.py": text})
    words, start = table(), time.monotonic()
    for _ in range(2):
        with pytest.raises(PluginError, match=r"plug-in slow 1.0 .*: importing it takes longer than 0.2 s"):
            words["b"]
    assert time.monotonic() - start < 5


def test_what_a_package_prints_while_it_is_imported_is_no_part_of_an_answer(
    table: Callable[[], Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{STATED}B = 'b'\nprint('hello')"
    install(tmp_path, "loud", {"assay.words": {"b": "words_loud:B"}}, {"words_loud.py": text})
    assert table()["b"] == "b"
    assert capsys.readouterr() == ("", "hello\n")


def test_a_name_of_assays_own_is_not_replaced_and_the_package_is_named(
    table: Callable[[], Table], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "thief", {"assay.words": {"own": "words_t:B"}}, {"words_t.py": f"{STATED}B = 'stolen'"})
    words = table()
    caplog.set_level(logging.WARNING, "assay")
    assert dict(words.items()) == {"own": "0123456789"}
    assert [*words] == ["own"]
    assert caplog.messages == [
        "plug-in thief 1.0 (assay.words: own = words_t:B): 'own' is one of Assay's own names; its own is used"
    ]


def test_a_name_that_two_packages_add_is_refused_and_both_are_named(
    table: Callable[[], Table], tmp_path: Path
) -> None:
    for package in ("one", "two"):
        text = {f"words_{package}.py": f"{STATED}B = 'b'"}
        install(tmp_path, package, {"assay.words": {"b": f"words_{package}:B"}}, text)
    words = table()
    assert "b" not in dict(words.items())
    with pytest.raises(PluginError) as raised:
        words["b"]
    assert str(raised.value) == (
        "plug-in one 1.0 (assay.words: b = words_one:B) and plug-in two 1.0 (assay.words: b = words_two:B): "
        "they have the same name, so none of them is used"
    )


def test_an_entry_whose_own_name_is_another_is_refused(table: Callable[[], Table], tmp_path: Path) -> None:
    install(tmp_path, "more", {"assay.words": {"b": "words_more:B"}}, {"words_more.py": f"{STATED}B = 'bee'"})
    table()
    words = registry.registry("assay.words", {}, str, calls_itself=lambda word: word)
    with pytest.raises(PluginError, match="calls itself 'bee'; both names must be the same"):
        words["b"]


def test_a_group_that_assay_lacks_is_named(table: Callable[[], Table], tmp_path: Path) -> None:
    install(tmp_path, "more", {"assay.format": {"b": "words_more:B"}}, {})
    table()
    [entry] = [entry for entry in registry.entry_points() if entry.group == "assay.format"]
    assert registry.trouble(entry).startswith(
        "plug-in more 1.0 (assay.format: b = words_more:B): Assay has no group assay.format; its groups are "
        "assay.formats, "
    )


def test_metadata_that_cannot_be_read_adds_nothing(table: Callable[[], Table], tmp_path: Path) -> None:
    for name, data in (
        ("a-1.dist-info", b"\xff[assay.words]\nb = m:B\n"),
        ("b-1.dist-info", b"[assay.words\nx"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "entry_points.txt").write_bytes(data)
    (tmp_path / "c-1.dist-info").write_text("a file")
    (tmp_path / "d-1.dist-info").mkdir()
    (tmp_path / "d-1.dist-info" / "entry_points.txt").write_text(
        "# none\n[assay.words]\n; b = m:B\nd = m:D\n"
    )
    table()
    [entry] = [entry for entry in registry.entry_points() if entry.group == "assay.words"]
    assert str(entry) == "plug-in d 1 (assay.words: d = m:D)"


def test_a_function_of_a_plugin_that_raises_is_named_and_where_and_expected_errors_pass() -> None:
    plugin = EntryPoint("assay.words", "b", "m:B", "more", "1.0", "", "")

    def fail(kind: type[BaseException]) -> str:
        raise kind("for a reason\nof two lines")

    where = r"^plug-in more .*: ValueError: for a reason of two lines \(.*py:\d+\)$"
    with pytest.raises(PluginError, match=where):
        plugin.guarded(fail)(ValueError)
    assert "SystemExit" in plugin.guarded(fail, str)(SystemExit)
    with pytest.raises(InputError):
        plugin.guarded(fail, str)(InputError)
    with pytest.raises(ValueError, match="reason"):
        plugin.guarded(fail, str, passes=(ValueError,))(ValueError)
    with pytest.raises(KeyboardInterrupt):
        plugin.guarded(fail, str)(KeyboardInterrupt)
    assert plugin.guarded(len)("abc") == 3


IMPORT_ALL = """
import pkgutil, sys
from contextlib import suppress
from importlib import import_module
import assay
for module in pkgutil.walk_packages(assay.__path__, "assay."):
    if not module.name.endswith("__main__"):
        with suppress(ImportError):
            import_module(module.name)
sys.exit("loud" in sys.modules)
"""


def test_no_module_of_assay_imports_a_plugin_while_it_is_imported_itself(tmp_path: Path) -> None:
    install(tmp_path, "loud", {group: {"x": "loud:X"} for group in registry.TABLES}, {"loud.py": STATED})
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORT_ALL], env=env, check=True)

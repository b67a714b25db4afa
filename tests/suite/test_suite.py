"""Reading suite.yaml and systems.yaml: what they mean, and what a user is told who wrote them wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.plan import metrics_of
from assay.records import Shape
from assay.suite import Suite, Systems, document, load
from assay.suite.model import SuiteFile
from fake_workloads import LAUNCHERS, PARAMS, WORKLOADS

GOOD = """\
suite: demo
systems: [here, there]
baseline: here
repeats: 3
margin: 3%
shapes: [1x1, 2x1]
benchmarks:
  training:
    workload: train
    params: {batch_size: [32, 64], precision: bf16}
    expect: {throughput: ">= 10 images/s"}
  communication:
    workload: sweep
    params: {sizes: [1, 2]}
    shapes: [2x1]
    repeats: 2
    timeout: 2min
"""
GOOD_SYSTEMS = """\
here: {launcher: local}
there:
  launcher: local
  env: {OMP_NUM_THREADS: "2"}
"""


TOKEN = "hf_AAAAAbcdefghijklmnopqrstuvw"


def read(folder: Path, suite: str | bytes, systems: str | bytes | None = None) -> tuple[Suite, Systems]:
    path = folder / "suite.yaml"
    path.write_bytes(suite if isinstance(suite, bytes) else suite.encode())
    if systems is not None:
        beside = systems if isinstance(systems, bytes) else systems.encode()
        path.with_name("systems.yaml").write_bytes(beside)
    return load(path, params_models=PARAMS, launcher_models=LAUNCHERS, metrics=metrics_of(WORKLOADS))


def refused(folder: Path, suite: str | bytes, systems: str | bytes | None = None) -> list[str]:
    """The problems, without the folder."""
    with pytest.raises(InputError) as caught:
        read(folder, suite, systems)
    assert caught.value.problems
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


# What it means


def test_a_suite_of_several_benchmarks_hands_down_what_they_do_not_say_themselves(tmp_path: Path) -> None:
    suite, systems = read(tmp_path, GOOD, GOOD_SYSTEMS)
    training, communication = suite.benchmarks
    assert (training.repeats, training.shapes, training.timeout_s) == (3, (Shape(1, 1), Shape(2, 1)), 1800)
    assert (communication.repeats, communication.shapes, communication.timeout_s) == (2, (Shape(2, 1),), 120)
    assert suite.margin == pytest.approx(0.03)
    assert systems.by_name["there"].definition == {
        "launcher": "local",
        "python": None,
        "env": {"OMP_NUM_THREADS": "2"},
    }


def test_a_list_where_one_value_is_wanted_is_swept_and_defaults_are_filled_in(tmp_path: Path) -> None:
    text = "suite: s\nworkload: train\nparams: {rate: [0.1, 1], batch_size: [32, 64]}\n"
    (benchmark,) = read(tmp_path, text)[0].benchmarks
    assert benchmark.name == "train"
    assert [point.varied for point in benchmark.points] == [
        {"batch_size": 32, "rate": 0.1},
        {"batch_size": 32, "rate": 1.0},
        {"batch_size": 64, "rate": 0.1},
        {"batch_size": 64, "rate": 1.0},
    ]
    assert benchmark.points[0].params == {"batch_size": 32, "precision": "fp32", "rate": 0.1, "name": "a"}


def test_a_list_where_a_list_is_wanted_is_one_value_and_a_list_of_lists_is_swept(tmp_path: Path) -> None:
    text = "suite: s\nworkload: sweep\nshapes: [2x1]\nparams: {sizes: %s}\n"
    (one,) = read(tmp_path, text % "[1, 2]")[0].benchmarks
    (two,) = read(tmp_path, text % "[[1, 2], [3]]")[0].benchmarks
    assert [(p.params["sizes"], p.varied) for p in one.points] == [([1, 2], {})]
    assert [p.varied for p in two.points] == [{"sizes": [1, 2]}, {"sizes": [3]}]


def test_without_a_systems_file_local_is_this_machine(tmp_path: Path) -> None:
    suite, systems = read(tmp_path, "suite: s\nworkload: train\n")
    assert (suite.systems, suite.baseline, systems.path) == (("local",), None, None)
    assert systems.by_name["local"].launcher == "local"


def test_a_suite_that_names_no_systems_takes_all_in_their_order_the_first_as_baseline(tmp_path: Path) -> None:
    suite, _ = read(tmp_path, "suite: s\nworkload: train\n", "b: {launcher: local}\na: {launcher: local}\n")
    assert (suite.systems, suite.baseline) == (("b", "a"), "b")


def test_anchors_and_merge_keys_save_writing_twice(tmp_path: Path) -> None:
    text = """\
suite: s
benchmarks:
  a: &common {workload: train, params: {batch_size: 8}}
  b: {<<: *common, repeats: 2}
  c:
    <<: [*common]
    params: {batch_size: 9}
"""
    a, b, c = read(tmp_path, text)[0].benchmarks
    assert [x.points[0].params["batch_size"] for x in (a, b, c)] == [8, 8, 9]
    assert (a.repeats, b.repeats) == (5, 2)


def test_every_value_knows_the_line_it_stands_on(tmp_path: Path) -> None:
    suite, systems = read(tmp_path, GOOD, GOOD_SYSTEMS)
    file = tmp_path / "suite.yaml"
    assert suite.where("benchmarks", "training", "expect", "throughput") == f"{file}:11"
    assert suite.where("benchmarks", "communication", "retries") == f"{file}:12"  # not written: what holds it
    assert systems.where("there", "env") == f"{tmp_path / 'systems.yaml'}:4"


# What is refused


@pytest.mark.parametrize(
    ("suite", "systems", "message"),
    [
        (
            "suite: index.duckdb\nworkload: train\n",
            "",
            "suite.yaml:1: suite: 'index.duckdb' is the name of a file",
        ),
        (
            f"suite: {TOKEN}\nworkload: train\n",
            "",
            "suite.yaml:1: suite: the name '(redacted)' contains a secret",
        ),
        (
            "suite: s\nworkload: train\n",
            f"{TOKEN}: {{launcher: local}}\n",
            "systems.yaml:1: the name '(redacted)' contains a secret",
        ),
        (
            f"suite: s\nbenchmarks: {{a-{TOKEN}: {{workload: train}}}}\n",
            "",
            "the name 'a (redacted)' contains a secret",
        ),
    ],
)
def test_a_name_that_assay_has_for_itself_or_a_secret_is_refused(
    tmp_path: Path, suite: str, systems: str, message: str
) -> None:
    assert message in "\n".join(refused(tmp_path, suite, systems))


def test_all_problems_of_both_files_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    suite = """\
suite: de mo
reapeats: 3
margin: 2 furlongs
shapes: [2*8, 1x1]
systems: [here, thre]
baseline: her
benchmarks:
  training:
    workload: trian
    expect: {throughput: 3}
  more:
    workload: train
    params: {batch_size: [32, "64", 0], precision: fp16, stepz: 3}
    timeout: soon
    timeout: 3s
  none: {}
"""
    systems = """\
here: {launcher: local, env: {A: 1}}
there: {launcher: locl}
elsewhere: 3
far: {launcher: local, pyhton: python3}
"""
    assert refused(tmp_path, suite, systems) == [
        "suite.yaml:1: suite: 'de mo' is not a name; use up to 40 letters, digits, dots, dashes and _",
        "suite.yaml:2: reapeats: unknown key; did you mean repeats?",
        "suite.yaml:3: margin: '2 furlongs' is not valid; write it as 2%",
        "suite.yaml:4: shapes[0]: '2*8' is not a shape; write workers x accelerators, such as 2x8",
        'suite.yaml:5: systems: "thre" is not a system in systems.yaml; did you mean there?',
        'suite.yaml:6: baseline: "her" is not a system of this suite; did you mean here?',
        'suite.yaml:9: workload: "trian" is not a workload; did you mean train?',
        'suite.yaml:10: benchmarks.training.expect.throughput: found 3; expected text in quotes: "3"',
        "suite.yaml:13: benchmarks.more.params.precision: "
        'found "fp16"; expected one of fp32, bf16; did you mean bf16?',
        "suite.yaml:13: benchmarks.more.params.stepz: unknown key; "
        "choose from batch_size, name, precision, rate",
        'suite.yaml:13: benchmarks.more.params.batch_size[1]: found "64"; expected a whole number',
        "suite.yaml:13: benchmarks.more.params.batch_size[2]: found 0; expected greater than or equal to 1",
        "suite.yaml:14: benchmarks.more.timeout: 'soon' is not valid; write it as 10min",
        'suite.yaml:15: "timeout" is written twice; the first is on line 14',
        "suite.yaml:16: benchmarks.none.workload: this key is missing",
        'systems.yaml:1: here.env.A: found 1; expected text in quotes: "1"',
        'systems.yaml:2: there.launcher: "locl" is not a launcher; did you mean local?',
        "systems.yaml:3: elsewhere: found 3; expected a mapping, such as {launcher: local}",
        "systems.yaml:4: far.pyhton: unknown key; did you mean python?",
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('{througput: ">= 1"}', '"througput" is not a metric of this suite; did you mean throughput?'),
        ('{throughput: ">= 1 MB/s"}', "'>= 1 MB/s' is not in a unit of this metric, which is images/s"),
        ('{throughput: "1 images/s"}', "write it as '>= 11000 MB/s' or '<= 20 min'"),
        ('{throughput: ">= fast"}', "'fast' is not a quantity"),
    ],
)
def test_a_requirement_that_no_metric_can_meet_is_refused(tmp_path: Path, asked: str, said: str) -> None:
    (problem,) = refused(tmp_path, f"suite: s\nworkload: train\nexpect: {asked}\n")
    assert problem.startswith("suite.yaml:3: expect")
    assert said in problem


def test_a_primary_metric_that_is_not_reported_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "suite: s\nworkload: train\nprimary: steptime\n")
    assert (
        problem == 'suite.yaml:3: primary: "steptime" is not a metric of this suite; did you mean step_time?'
    )


def test_a_system_without_a_systems_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    [said] = refused(tmp_path, "suite: s\nworkload: train\nsystems: [lab]\n")
    assert "systems.yaml to define lab; create one with a line such as `lab: {launcher: local}`" in said


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("", "suite.yaml:1: is empty"),
        ("# nothing\n", "suite.yaml:1: is empty"),
        ("- a\n", 'suite.yaml:1: found ["a"]; expected a mapping, such as suite: NAME'),
        ("null", "suite.yaml:1: found null; expected a mapping"),
        ("suite: s\n", "suite.yaml:1: there is neither workload nor benchmarks"),
        ("suite: s\n\tworkload: train\n", "indent with spaces, not tabs"),
        ("suite: [s\nworkload: train\n", "suite.yaml:2: is not YAML"),
        ("suite: s\nworkload: *there\n", "suite.yaml:2: is not YAML: found undefined alias 'there'"),
        ("suite: s\n--- \nsuite: t\n", "is not YAML: but found another document"),
        (b"suite: s\nworkload: \xff\n", "suite.yaml:2: is not UTF-8 text (byte 0xff); save it as UTF-8"),
        (b"suite: \x07\n", "suite.yaml:1: contains a character that YAML does not allow"),
        ('suite: "\\UFFFFFFFF"\n', "is not YAML: an escape does not name a character"),
        ('suite: "a\\0b"\nworkload: train\n', "suite.yaml:1: the text contains a NUL"),
        (
            'suite: "\\uD800"\nworkload: train\n',
            "suite.yaml:1: the text contains a NUL or half of a character",
        ),
        (
            "suite: s\nworkload: train\nseed: .inf\n",
            "suite.yaml:3: .inf is not a number that can be used here",
        ),
        (
            "suite: s\nworkload: train\nseed: 99999999999999999999\n",
            "suite.yaml:3: 99999999999999999999 is not",
        ),
        ("suite: s\nworkload: train\nseed: !!int x\n", "suite.yaml:3: x is not a number"),
        ("suite: s\nworkload: !!python/name:os.system train\n", "suite.yaml:2: 'train': the tag"),
        ("suite: s\nworkload: train\n? [a]\n: b\n", "suite.yaml:3: a key must be a word"),
        ("suite: s\nworkload: train\n<<: 3\n", "suite.yaml:3: << takes the alias of a mapping"),
        ("suite: s\nworkload: train\nrepeats: 0\n", "suite.yaml:3: repeats: found 0; expected greater than"),
        ("suite: s\nworkload: train\nrepeats: yes\n", 'found "yes"; expected a whole number'),
        ("suite: s\nworkload: train\nmargin: 200%\n", "'200%' is not a margin below 100%"),
        ("suite: s\nworkload: train\ntimeout: -1s\n", "'-1s' must be more than 0; write it as 10min"),
        ("suite: s\nworkload: train\ntimeout: true\n", "True is not valid here; write it as 10min"),
        ("suite: s\nworkload: train\nshapes: [1x1, 1x1]\n", "1x1 appears here twice"),
        ("suite: s\nworkload: train\nshapes: []\n", "suite.yaml:3: shapes"),
        ("suite: s\nworkload: train\nbenchmarks: {a: {workload: train}}\n", "exclude each other"),
        ("suite: s\nbenchmarks: {a/b: {workload: train}}\n", "'a/b' is not a name"),
        ("suite: s\nbenchmarks: 3\n", "suite.yaml:2: benchmarks: found 3; expected a mapping of key: value"),
        ("suite: s\nworkload: train\nsystems: local\n", 'found "local"; expected a list'),
        (
            "suite: s\nworkload: train\nsystems: [lokal]\n",
            '"lokal" is not a system in systems.yaml; did you mean local?',
        ),
        ("suite: s\nworkload: train\nparams: {batch_size: []}\n", "batch_size: an empty list sweeps nothing"),
        ("suite: s\nworkload: train\nparams: {batch_size: [1, 1]}\n", "batch_size: 1 is swept twice"),
        ("suite: s\nworkload: train\nparams:\n", "suite.yaml:3: params: found null; expected a mapping"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_what_to_do(
    tmp_path: Path, suite: str | bytes, said: str
) -> None:
    assert any(said in problem for problem in refused(tmp_path, suite)), refused(tmp_path, suite)


def test_a_file_that_is_not_there_is_named_and_the_other_one_is_checked_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path / "no.yaml", tmp_path / "none.yaml", params_models=PARAMS, launcher_models=LAUNCHERS)
    assert [str(p) for p in caught.value.problems] == [
        f"{tmp_path}/no.yaml: can't be read: No such file or directory",
        f"{tmp_path}/none.yaml: can't be read: No such file or directory",
    ]


def test_a_grid_too_large_to_run_is_refused_before_it_is_made(tmp_path: Path) -> None:
    numbers = list(range(1, 300))
    text = f"suite: s\nworkload: train\nparams: {{batch_size: {numbers}, rate: {numbers}}}\n"
    (problem,) = refused(tmp_path, text)
    assert "299 batch_size x 299 rate make 89401 points; the maximum is 4096" in problem


# Files made to hurt


def test_aliases_that_stand_for_a_billion_values_are_stopped(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (problem,) = refused(tmp_path, "\n".join(lines))
    assert "more than 20000 values once its aliases are expanded" in problem


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "- " * 5000, "a: &a [*a]", "&a {b: *a}", "&a {<<: *a}", "{a: " * 5000],
)
def test_nesting_without_end_is_stopped(tmp_path: Path, text: str) -> None:
    (problem,) = refused(tmp_path, text)
    assert "is nested deeper than 40 levels" in problem


def test_a_file_of_a_size_no_suite_needs_is_not_read_to_its_end(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "#" * 300_000)
    assert problem == "suite.yaml: is larger than 256 KiB, which no suite needs"


def test_a_file_of_a_program_may_be_larger_and_is_json_or_refused(tmp_path: Path) -> None:
    made, broken = tmp_path / "systems.json", tmp_path / "broken.json"
    many = {f"s{number}": {"launcher": "local", "python": "p" * 100} for number in range(5_000)}
    made.write_text(json.dumps(many))
    assert document.read(made).data == many
    for text in ("{1: 2}", "[NaN]", "[" * 10_000):
        broken.write_text(text)
        (problem,) = document.read(broken).problems
        assert "is not JSON" in str(problem)


FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def loads_or_is_refused(folder: Path, suite: str | bytes, systems: str | bytes) -> None:
    try:
        suite_read, _ = read(folder, suite, systems)
    except InputError as error:
        nameless = [problem for problem in error.problems if not (problem.where and problem.what)]
        assert not nameless
    else:
        assert all(benchmark.points for benchmark in suite_read.benchmarks)


@FUZZ
@given(suite=st.binary(max_size=200), systems=st.binary(max_size=200))
def test_any_bytes_load_or_are_refused(tmp_path: Path, suite: bytes, systems: bytes) -> None:
    loads_or_is_refused(tmp_path, suite, systems)


YAML_BITS = st.sampled_from(
    [
        *"abx01-:?,[]{}&*!|>'\"%@#<.~= \n\t",
        *("\n  ", ": ", "- ", "<<: *a", "&a ", "*a", "!!int ", "!!binary ", "0x", "1e400", ".nan", "null"),
        *(
            '"\\U0011FFFF"',
            '"\\UFFFFFFFF"',
            "%YAML 1.1\n---\n",
            "suite: s\n",
            "workload: train\n",
            "params: ",
        ),
    ]
)


@FUZZ
@given(suite=st.lists(YAML_BITS, max_size=40).map("".join))
def test_anything_built_of_pieces_of_yaml_loads_or_is_refused(tmp_path: Path, suite: str) -> None:
    loads_or_is_refused(tmp_path, suite, suite)


@FUZZ
@given(data=st.data())
def test_a_good_suite_with_a_part_replaced_loads_or_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    def mutated(text: str) -> str:
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        return text[:start] + data.draw(st.lists(YAML_BITS, max_size=6).map("".join)) + text[end:]

    loads_or_is_refused(tmp_path, mutated(GOOD), mutated(GOOD_SYSTEMS))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@FUZZ
@given(key=st.sampled_from(list(SuiteFile.model_fields)), value=VALUES)
def test_any_value_under_any_key_loads_or_is_refused(tmp_path: Path, key: str, value: object) -> None:
    lines = {"suite": "s", "workload": "train"} | {key: value}
    text = "\n".join(f"{k}: {json.dumps(v)}" for k, v in lines.items())
    loads_or_is_refused(tmp_path, text, f"here: {json.dumps(value)}\n")
    inside = {"suite": "s", "benchmarks": {"b": {"workload": "train", key: value}}}
    loads_or_is_refused(tmp_path, json.dumps(inside), "here: {launcher: local}\n")

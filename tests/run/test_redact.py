"""Secrets are found by name, by shape and by value, and nothing else is touched."""

from __future__ import annotations

import json
import random
import shlex
import string
import time

import pytest

from assay import redact
from assay.redact import (
    REDACTED,
    NumberedMarks,
    is_secret_name,
    redacted,
    redacted_json,
    redacted_yaml,
    secrets_in,
)
from assay.redact.shapes import hidden
from conftest import ROOT


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "password",
        "dbPassword",
        "--api-key",
        "env.WANDB_API_KEY",
        "GH_PAT_AUTH",
        "PASS",
        "--pass",
        "--userpass",
        "DB_PW",
        "http_s3_key",
        "http_pass",
        "--s3secret",
        "S3_KEY",
        "ssl.keystore.password",
        "OTP",
        "--license-key",
        "ENCRYPTION_KEY",
        "SIGNING_KEY",
    ],
)
def test_names_that_usually_hold_a_secret_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokenizer",
        "author",
        "key",
        "NCCL_DEBUG",
        "primary_key",
        "passes",
        "monkey",
        "eos_token",
        "time_per_output_token",
        "secretName",
        "TOKEN_FILE",
        "auth_mode",
        "ASSAY_TOKEN",
        "pin_memory",
        "pin_cpus",
        "forward_pass",
        "-pass",
    ],
)
def test_names_of_plain_parameters_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_numbers_are_hidden_only_where_the_name_ends_in_the_secret() -> None:
    assert redacted({"PASSWORD": 1234, "token_count": 128, "auth": True, "token": None}) == {
        "PASSWORD": REDACTED,
        "token_count": 128,
        "auth": True,
        "token": None,
    }


def test_a_table_under_a_secret_looking_name_is_kept_for_its_own_keys_tell() -> None:
    metrics = {"token_rate": {"unit": "tokens/s", "pattern": "x"}, "secrets": {"API_KEY": "s", "n": 1}}
    assert redacted(metrics) == {**metrics, "secrets": {"API_KEY": REDACTED, "n": 1}}


def test_secrets_in_arguments_are_hidden_and_named() -> None:
    argv = ["train", "--api-key", "s1", "HF_TOKEN=s2", "--token=s3", "--auth", "--verbose", "x=y"]
    clean = redacted({"argv": argv})["argv"]
    assert clean == [
        "train",
        "--api-key",
        REDACTED,
        f"HF_TOKEN={REDACTED}",
        f"--token={REDACTED}",
        "--auth",
        "--verbose",
        "x=y",
    ]
    assert secrets_in(
        {"argv": [a.replace("=s", "=hunter") for a in argv], "env": {"A_TOKEN": "hunter4"}}
    ) == {
        "hunter2",
        "hunter3",
        "hunter4",
    }


def test_a_json_file_stays_one_without_its_secrets() -> None:
    found = redacted_json('{"env": {"HF_TOKEN": "x", "é": 1}}')
    assert found == '{"env": {"HF_TOKEN": "(redacted)", "é": 1}}'


def test_a_yaml_file_without_secrets_stays_as_it_was_written() -> None:
    text = "# mine\nsuite:   demo\nparams: {max_tokens: 5, x: [1,2]}\n"
    assert redacted_yaml(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "here:\n  env:\n    HF_TOKEN: hunter2 # mine\n    A: b\n",
        "here: {env: {HF_TOKEN: hunter2, A: b}}\n",
        "here:\n  env:\n    HF_TOKEN: |\n      hunter2\n      hunter3\n    A: b\n",
        "params: {argv: [train, --api-key, hunter2], A: b}\n",
        "secret: [hunter2, hunter3]\nA: b\n",
    ],
)
def test_a_yaml_file_loses_its_secrets_in_whatever_way_they_are_written(text: str) -> None:
    clean = redacted_yaml(text)
    assert "hunter" not in clean
    assert REDACTED in clean
    assert "A: b" in clean


# By shape. Each is made here from parts, so that no scanner takes this file for a leak.
R = random.Random(7)


def of(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(R.choice(alphabet) for _ in range(count - 2)) + "A7"


KEY = "\n".join(["-----BEGIN PRIVATE" + " KEY-----", of(64), of(40) + "==", "-----END PRIVATE" + " KEY-----"])
SHAPED = {
    "Hugging Face": "hf_" + of(34),
    "GitHub": "ghp_" + of(36),
    "GitHub OAuth": "gho_" + of(36),
    "GitHub fine-grained": "github_pat_" + of(22) + "_" + of(59),
    "GitLab": "glpat-" + of(20),
    "AWS id": "AKIA" + of(16, string.ascii_uppercase),
    "Google API": "AIza" + of(35),
    "Google OAuth": "ya29." + of(60),
    "Slack": "xoxb-" + of(12, string.digits) + "-" + of(24),
    "npm": "npm_" + of(36),
    "PyPI": "pypi-Ag" + of(80),
    "OpenAI": "sk-proj-" + of(40),
    "NVIDIA": "nvapi-" + of(64),
    "OpenShift": "sha256~" + of(43),
    "JSON web token": "eyJ" + of(20) + ".eyJ" + of(40) + "." + of(43),
    "private key": KEY,
    "private key in JSON": KEY.replace("\n", "\\n"),
}
IN_CONTEXT = {
    "https://me:{}@host/x": "hunter",
    "postgres://me:{}@db:5432/x?y=1": "p@ss/w0rd",
    "redis://:{}@cache:6379": "hunter",
    "Authorization: Bearer {}": of(30),
    "authorization: Basic {}": "dXNlcjpwYXNz",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x": of(86) + "==",
    "https://a.blob.core.windows.net/c?sv=2022&sig={}&se=2030": of(43) + "%3D",
    "aws_secret_access_key = {}": of(40),
    "export WANDB_API_KEY={}": of(40, "0123456789abcdef"),
    "https://api/v1?token={}&x=1": "hunter",
    "--index-url https://packages.example.com/{}/simple": "hf_" + of(34),
}


@pytest.mark.parametrize("secret", SHAPED.values(), ids=SHAPED)
@pytest.mark.parametrize("around", ["{}", 'a "{}" b', "x={},y", "({}) end.", "line\n{}\nline"])
def test_a_secret_of_a_public_shape_is_hidden_wherever_it_is(secret: str, around: str) -> None:
    shown = hidden(around.format(secret))
    assert REDACTED in shown
    middle = len(secret) // 2
    assert secret[middle : middle + 6] not in shown
    assert len(shown) >= len(around) - 2, "what is around it stays"


@pytest.mark.parametrize(("around", "secret"), IN_CONTEXT.items(), ids=list(IN_CONTEXT))
def test_a_secret_that_its_surroundings_give_away_is_hidden_alone(around: str, secret: str) -> None:
    assert hidden(around.format(secret)) == around.format(REDACTED)


@pytest.mark.parametrize(
    "text",
    [
        "sha256:" + of(64, "0123456789abcdef"),
        "image@sha256:" + of(64, "0123456789abcdef"),
        of(40, "0123456789abcdef"),
        of(4000) + "==",
        " ".join(of(12, string.digits) for _ in range(25)),
        "0.12345678901234567890 1700000000.123 4e-12",
        "http://host:8080/a@b ssh://git@github.com/x git@github.com:a/b.git user@host",
        "tokens/s max_tokens=128 BATCH=32 NCCL_DEBUG=INFO ASSAY_TOKEN=3f2a",
        "hf_hub_download sk-learn-style-names-of-things eyJ npm_config_cache AKIA",
        "HF_TOKEN=$HF_TOKEN HF_TOKEN=<token> TOKEN=${TOKEN}",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  model.safetensors",
    ],
)
def test_digests_commits_numbers_and_words_that_look_alike_stay(text: str) -> None:
    assert hidden(text) == text


@pytest.mark.parametrize("folder", ["docs", "tests/golden", "examples", "src/assay_payloads"])
def test_nothing_that_the_project_itself_says_is_taken_for_a_secret(folder: str) -> None:
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in (".md", ".py", ".json", ".yaml", ".html", ".txt", ".log", ".sh"):
            for line in path.read_text(errors="replace").splitlines():
                assert hidden(line) == line, path


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["mysql", "-phunter2"], ["mysql", f"-p{REDACTED}"]),
        (["mysql", "-p", "hunter"], ["mysql", "-p", REDACTED]),
        (["docker", "login", "-u", "me", "-p", "word"], ["docker", "login", "-u", "me", "-p", REDACTED]),
        (["run.py", "-p", "s3cret!pw"], ["run.py", "-p", REDACTED]),
        (["curl", "-u", "me:hunter", "x"], ["curl", "-u", f"me:{REDACTED}", "x"]),
        (["curl", "-H", "X-Auth-Token: abc", "x"], ["curl", "-H", f"X-Auth-Token: {REDACTED}", "x"]),
        (
            ["sh", "-c", "PGPASSWORD=hunter psql --password 'a b'"],
            ["sh", "-c", f"PGPASSWORD={REDACTED} psql --password {REDACTED}"],
        ),
        (["load", "--url", "https://u:hunter@h/x"], ["load", "--url", f"https://u:{REDACTED}@h/x"]),
    ],
)
def test_arguments_that_pass_a_secret_are_hidden(argv: list[str], shown: list[str]) -> None:
    assert redacted(argv) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "argv",
    [
        ["serve", "-p", "8080"],
        ["docker", "run", "-p", "8080:80", "--user", "1000:1000"],
        ["mkdir", "-p", "/data/x"],
        ["train", "-p", "bfloat16", "-p", "fp16", "-p", "mixed", "--max-tokens", "128"],
        ["sh", "-c", "TOKEN=$TOKEN train --token $TOKEN --auth"],
        ["gcc", "-pthread", "-pipe"],
        ["bench", "--eos-token", "</s>", "--token-file", "/run/token"],
    ],
)
def test_arguments_that_pass_none_stay(argv: list[str]) -> None:
    assert redacted(argv) == argv


def test_what_was_hidden_once_stays_as_it_is() -> None:
    data = {"env": {"TOKEN": "hunter2", "URL": "https://u:hunter2@h"}, "argv": ["x", "--password", "hunter2"]}
    assert redacted(redacted(data)) == redacted(data)


def test_marks_with_numbers_tell_secrets_apart_and_stay() -> None:
    marks = NumberedMarks()
    data = {"env": {"TOKEN": "hunter2"}, "argv": ["x", "--password", "hunter3"], "url": "https://u:hunter2@h"}
    shown = redacted(data, marks)
    assert shown == {
        "env": {"TOKEN": "(redacted-1)"},
        "argv": ["x", "--password", "(redacted-2)"],
        "url": "https://u:(redacted-1)@h",
    }
    assert redacted({"PASSWORD": "hunter3"}, marks) == {"PASSWORD": "(redacted-2)"}
    assert redacted(shown) == shown
    assert secrets_in(shown) == frozenset()
    assert redact.text(json.dumps(shown)) == json.dumps(shown)


@pytest.mark.parametrize(
    "around", [*IN_CONTEXT, "train --password {}", "curl -ume:{} host", "docker login -p {}"]
)
@pytest.mark.parametrize("mark", ["(redacted)", "(redacted-12)"])
def test_a_mark_stays_wherever_it_is(around: str, mark: str) -> None:
    text = around.format(mark)
    for wanted in (text, shlex.quote(text), json.dumps({"note": text})):
        assert hidden(wanted) == wanted
        assert redacted({"note": wanted}) == {"note": wanted}
        assert redact.secrets_in_text(wanted) == []


def test_a_value_that_the_files_name_is_hidden_in_every_other_text() -> None:
    redact.learn({"env": {"DATABASE_URL": "postgres://u:Tr0ub4dor&3@db/x", "API_KEY": "quo\"te's-1"}})
    assert redact.text("failed for u with Tr0ub4dor&3 at db") == f"failed for u with {REDACTED} at db"
    assert redact.text('{"said": "quo\\"te\'s-1"}') == f'{{"said": "{REDACTED}"}}'
    assert redact.text("/login?p=Tr0ub4dor%263") == f"/login?p={REDACTED}"


@pytest.mark.parametrize("plain", ["basic", "1234", "12345678", "true", "token", "kubernetes"])
def test_a_value_that_is_an_ordinary_word_is_hidden_only_where_it_is_named(plain: str) -> None:
    redact.learn({"PASSWORD": plain})
    assert redacted({"PASSWORD": plain}) == {"PASSWORD": REDACTED}
    assert redact.text(f"{plain} stays") == f"{plain} stays"


def test_a_short_value_is_hidden_as_a_whole_word_only() -> None:
    redact.learn({"PASSWORD": "abc123"})
    assert redact.text("abc123 and xabc1234") == f"{REDACTED} and xabc1234"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("data", [{"TLS_KEY_SECRET": KEY}, {"CERTIFICATE": KEY}, {"argv": ["serve", KEY]}])
def test_each_line_of_a_known_secret_is_hidden_alone(data: dict[str, str], line_end: str) -> None:
    redact.learn(json.loads(json.dumps(data).replace("\\n", json.dumps(line_end)[1:-1])))
    header, *body, footer = KEY.split("\n")
    for line in body:
        assert redact.text(f"line: {line}") == f"line: {REDACTED}"
        assert redact.text(json.dumps({"said": line})) == json.dumps({"said": REDACTED})
    assert redact.text(header) == header
    assert redact.text(footer) == footer


def test_lines_of_a_known_file_that_any_file_may_have_stay() -> None:
    kept = "apiVersion: v1\nkind: Config\n\n---\nusers:\n- x\n"
    redact.learn_values([f"{kept}client-key-data: {of(40)}\n"])
    assert redact.text(f"{kept}kind: ConfigMap\n") == f"{kept}kind: ConfigMap\n"


PLANTED = "hunter2xyz"
KEY_OF_WANDB = "0f1e2d3c4b5a69788796a5b4c3d2e1f001234567"
PATCH = {"spec": {"containers": [{"env": [{"name": "DB_PASSWORD", "value": PLANTED}]}]}}


def test_the_value_of_a_name_and_value_pair_is_hidden_and_known() -> None:
    clean = redacted({"patch": PATCH})["patch"]["spec"]["containers"][0]["env"]
    assert clean == [{"name": "DB_PASSWORD", "value": REDACTED}]
    assert secrets_in(PATCH) == {PLANTED}
    settings = [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {}}}]
    assert redacted(settings) == settings


@pytest.mark.parametrize(
    "text",
    [
        "the password=hunter2xyz works",
        "Server=db;Database=x;User Id=me;Password=hunter2xyz;Encrypt=yes",
        "Server=db;Pwd=hunter2xyz;",
        '{"user": "me", "password": "hunter2xyz"}',
        "{'user': 'me', 'api_key': 'hunter2xyz'}",
        '{\\"password\\": \\"hunter2xyz\\"}',
        "- name: DB_PASSWORD\n  value: hunter2xyz\n",
        '{"name": "DB_PASSWORD", "value": "hunter2xyz"}',
        "https://s3/x?X-Amz-Date=1&X-Amz-Signature=hunter2xyz&a=b",
        "https://x.blob/c?sv=1&sig=hunter2xyz",
        "machine api.example.org login me password hunter2xyz",
        "https://ghp_hunter2xyz@github.com/a/b",
        "https://abcdefgh1234hunter2xyz@github.com/a/b",
        "sk-proj-abcdefgh1234hunter2xyz",
        "aws_secret_access_key = hunter2xyz",
        "+ curl https://x -u admin:hunter2xyz",
        '  "command": "curl -s --user=admin:hunter2xyz https://x",',
        "Running ['curl', '-u', 'admin:hunter2xyz', 'https://x']",
        '{"run": "curl -u \\"admin:hunter2xyz\\" x"}',
        "curl \\\n  -u admin:hunter2xyz \\\n  https://x",
        "cd /data && mysql -u root -phunter2xyz db",
        "ldapsearch -D cn=me -w hunter2xyz -x",
        "wget --user me --http-password hunter2xyz https://x",
        "elbencho --s3key AB12 --s3secret hunter2xyz --s3sessiontoken hunter2abc -w",
        "elbencho --s3secret=hunter2xyz",
        "ior -a S3-libs3 --S3-libs3.secret-key hunter2xyz",
        "['warp', '--secret-key', 'hunter2xyz']",
        '"http_s3_key": "hunter2xyz"',
        '"http_pass" : "hunter2xyz",',
        "fio --http_s3_key=hunter2xyz --http_pass=hunter2abc",
        'sasl.jaas.config=PlainLoginModule required username="me" password="hunter2xyz";',
    ],
)
def test_a_secret_in_running_text_is_hidden(text: str) -> None:
    shown = hidden(text)
    assert "hunter2" not in shown
    assert REDACTED in shown
    assert hidden(shown) == shown


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ('train --config \'{"password": "hunter2xyz"}\'', PLANTED),
        ("aws configure set aws_secret_access_key hunter2xyz", PLANTED),
        (f"wandb login {KEY_OF_WANDB}", KEY_OF_WANDB),
        (f"wandb login --relogin {KEY_OF_WANDB}", KEY_OF_WANDB),
        ("load --bearer hunter2xyz", PLANTED),
        ("load --creds me:hunter2xyz", PLANTED),
        ("curl -ume:hunter2xyz host", PLANTED),
        ("curl -su me:hunter2xyz host", PLANTED),
        ("curl --user=me:hunter2xyz host", PLANTED),
        ("redis-cli -a hunter2xyz ping", PLANTED),
        ("openssl enc -aes256 -pass pass:hunter2xyz", PLANTED),
        ("ldapsearch -x -w hunter2xyz", PLANTED),
        ("ipmitool -U admin -P hunter2xyz power status", PLANTED),
        ("mkdir -p x && mysql -u docker -phunter2xyz", PLANTED),
    ],
)
def test_a_secret_among_arguments_is_hidden_in_a_list_a_shell_line_and_a_note(line: str, secret: str) -> None:
    for data in (shlex.split(line), ["sh", "-c", line], {"note": line}):
        clean = redacted(data)
        assert secret not in json.dumps(clean)
        assert REDACTED in json.dumps(clean)
        assert secret in secrets_in(data)
        assert redacted(clean) == clean


@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p results2024a",
        "cp -p checkpoint2024a /data",
        "perf stat -p 1234",
        "python -u train.py",
        "docker run -u 1000 -p 8080:80 image",
        "docker run -u me:staff image",
        "sort -u -a words2024a",
        "train -p results2024a -w 4 -a resnet50",
        "env NCCL_TOKEN_RING=1 NCCL_TOKEN_RING_ALGO=tree HF_HUB_DISABLE_IMPLICIT_TOKEN=1 train",
    ],
)
def test_the_same_options_of_other_programs_stay(line: str) -> None:
    assert redacted(line.split()) == line.split()
    assert redacted(["sh", "-c", line]) == ["sh", "-c", line]


def test_settings_of_libraries_and_switches_stay() -> None:
    env = {"NCCL_TOKEN_RING": "1", "CUDA_SECRET_MODE_X": "fast", "VLLM_USE_AUTH": "1", "TOKEN_RINGS": "16"}
    assert redacted(env) == env


@pytest.mark.parametrize(
    "text",
    [
        "time per token: 12.3ms, first token: 8 s, token=17",
        "password: wrong, secret: unknown, token: missing",
        "Client(token=api_token, password=db_password, auth=None)",
        're.compile(r"token=(?P<value>[0-9.]+)")',
        '{"token": "0f1e2d3c4b5a"}',
        "  --password PASSWORD   the password of the user; --token takes a value",
        "curl -u admin:$PASSWORD x; curl -u <user>:<password> x; curl -u admin:${PASSWORD} x",
        "the option -p of mysql -p asks for it, login -p does so too, and zip -P is deprecated",
        "mysql -p mydb -P 3306",
        "layer_3_key: 0.25abc9 layers.3.key: w9",
        "docker run -u me:staff2024a image && python -u train2024a.py",
        "curl -s -o out2024a.json https://x/y:z",
        "wandb: commit 0f1e2d3c4b5a69788796a5b4c3d2e1f001234567",
    ],
)
def test_running_text_that_only_speaks_of_secrets_stays(text: str) -> None:
    assert hidden(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "http://a:b,",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "password=",
        "password ",
        "?a=&",
        "eyJaaaaaaaa.",
        "curl -u a:",
        "curl ",
        "--password ",
    ],
)
def test_the_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    def least_cpu_s(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size] + " ://"
        took = []
        for _ in range(3):  # neighbors on the CPU make it slower, never faster
            begin = time.process_time()
            hidden(text)
            took.append(time.process_time() - begin)
        return min(took)

    assert (
        least_cpu_s(200_000) < 40 * least_cpu_s(20_000) + 0.05
    )  # 10 times if it is linear, 100 if quadratic


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    redact.learn_values(["pre9Kq81LONGER77zz", "LONGER77zzTAIL5"])
    assert redact.text("see pre9Kq81LONGER77zzTAIL5.") == f"see {REDACTED}."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer\n  abcDEF123456ghiJKL", "Authorization: Bearer\n  (redacted)"),
        ("Authorization: Basic\n\tYm9iOnB3NzcK", "Authorization: Basic\n\t(redacted)"),
        ("the password is 'PlainPw!77zz'", "the password is '(redacted)'"),
        ("Your API key is: k3y-of-bob!", "Your API key is: (redacted)"),
        ("the password is wrong; the token is missing", "the password is wrong; the token is missing"),
        ("Authorization: none\nnext line", "Authorization: none\nnext line"),
        ("the token is 1234567 of 9000000", "the token is 1234567 of 9000000"),
    ],
)
def test_a_secret_on_the_next_line_or_after_is_is_hidden(text: str, shown: str) -> None:
    assert redact.text(text) == shown

"""Secrets are found by their names, and nothing else is touched."""

from __future__ import annotations

import pytest

from assay.redact import REDACTED, is_secret_name, redacted, redacted_json, redacted_yaml, secrets_in


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
    ],
)
def test_names_that_usually_hold_a_secret_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "tokenizer", "author", "key", "NCCL_DEBUG", "primary_key", "passes", "monkey"]
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
    assert secrets_in({"argv": argv, "env": {"A_TOKEN": "s4"}}) == {"s1", "s2", "s3", "s4"}


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

"""MLPerf Training's benchmarks: their names, and what the counts in their logs mean.

By benchmark, round, and submitter, one key has several meanings:

`epoch_num`      epochs in most logs, samples or tokens in others
`samples_count`  samples, in every log that has it
`train_samples`  the training set, batches, iterations, or what the run processed
`throughput`     samples per second of all accelerators; of one in RetinaNet's logs; tokens in GPT-3's

Sources: the compliance rules of v0.5 to v0.7 make `epoch_num` increase by one per epoch. From v1.0 on,
mlperf-logging compares the logged number with its reference convergence points, so it counts what those
count. What `train_samples` counts was derived from the 9,800 published logs of v1.1, v2.0, v3.0, and v4.0,
where time, batch size, and the log's own throughput distinguish batches from samples, and from published logs
of v6.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

Round = tuple[int, int]


def round_order(round_: str | None) -> Round | None:
    """A round as a comparable number; None if it is unknown or not written like one.

    >>> round_order("v3.1"), round_order("v0.5") < round_order("v1.0"), round_order("spring")
    ((3, 1), True, None)
    """
    match = re.fullmatch(r"v(\d{1,3})\.(\d{1,3})", round_ or "")
    return (int(match[1]), int(match[2])) if match else None


KNOWN: Final = frozenset(
    {
        "resnet", "ssd", "retinanet", "maskrcnn", "gnmt", "transformer", "ncf", "minigo", "bert", "dlrm",
        "dlrm_dcnv2", "rnnt", "unet3d", "gpt3", "stable_diffusion", "llama2_70b_lora", "gnn", "rgat",
        "llama31_405b", "llama31_8b", "flux1", "gpt_oss_20b", "deepseekv3_671b", "dlrmv4", "qwen35_397b_grpo",
    }
)  # fmt: skip

# other names in logs and folders
_SAME: Final[Mapping[str, str]] = {
    "rn50": "resnet", "resnet50": "resnet", "resnet-50": "resnet", "image_classification": "resnet",
    "single_stage_detector": "ssd", "mask_rcnn": "maskrcnn", "mask-rcnn": "maskrcnn",
    "object_detection": "maskrcnn", "rnn_translator": "gnmt", "translation": "transformer",
    "recommendation": "ncf", "rnn_t": "rnnt", "rnn-t": "rnnt", "unet_3d": "unet3d", "3d-unet": "unet3d",
    "dlrm_dcn": "dlrm_dcnv2", "dlrm-dcnv2": "dlrm_dcnv2", "flux": "flux1",
    "lora": "llama2_70b_lora", "llama2_70b": "llama2_70b_lora", "llama3.1_8b": "llama31_8b",
    "llama3.1_405b": "llama31_405b", "stable-diffusion": "stable_diffusion", "sd": "stable_diffusion",
    "gpt-oss": "gpt_oss_20b", "gpt-oss-20b": "gpt_oss_20b", "gpt_oss": "gpt_oss_20b",
    "deepseekv3": "deepseekv3_671b", "deepseek-v3": "deepseekv3_671b", "dlrm-v4": "dlrmv4",
    "qwen35_397b": "qwen35_397b_grpo",
}  # fmt: skip


def benchmark_name(word: str) -> str:
    """The folders' name for a benchmark: `rn50` is `resnet`; an unknown word is unchanged."""
    lower = word.lower()
    return _SAME.get(lower, lower if lower in KNOWN else word)


def is_known_benchmark(name: str) -> bool:
    """Whether a name returned by `benchmark_name` is an MLPerf Training benchmark."""
    return name in KNOWN


@dataclass(frozen=True)
class InRounds:
    """What is known of a benchmark, named by its result folder, in the rounds from `first` to `last`."""

    benchmark: str
    first: Round
    last: Round


Known = TypeVar("Known", bound=InRounds)


def in_round(table: Iterable[Known], benchmark: str | None, round_: str | None) -> Known | None:
    """The first entry of a benchmark in a round; None if there is none, or the round is unknown."""
    version = round_order(round_)
    if version is None:
        return None
    return next((e for e in table if e.benchmark == benchmark and e.first <= version <= e.last), None)


What = Literal["epochs", "samples", "tokens"]
Size = Literal["data set", "batches", "iterations", "samples seen", "tokens seen", "samples allowed"]

_RULES: Final = "the round's compliance rules"
_REFERENCES: Final = "mlperf-logging's reference convergence points"
_LOGS: Final = "the published logs"
GPT3_TOKENS_PER_SAMPLE: Final = 2048  # of the reference model: each sample is one whole sequence
LIKE_THE_DATA_SET: Final = 0.05  # implementations omit the last batch or the longest samples


@dataclass(frozen=True)
class EpochUnit(InRounds):
    """What `epoch_num` counts.

    per_sample  counts that make one sample; 1 where epochs or samples are counted
    began_at    its value before anything is trained
    passes      whether the benchmark uses its whole training set, so that samples add up to epochs
    filled_up   whether an epoch is padded to whole batches, which matters for a set of 168 samples
    """

    what: What
    source: str
    per_sample: int = 1
    began_at: float = 0.0
    passes: bool = False
    filled_up: bool = False


def _epochs(first: Round, last: Round, *benchmarks: str, source: str = _REFERENCES) -> list[EpochUnit]:
    return [EpochUnit(name, first, last, "epochs", source, passes=True) for name in benchmarks]


_EPOCH_NUM: Final = (
    *_epochs((0, 5), (0, 7), "resnet", "ssd", "maskrcnn", "gnmt", "transformer", source=_RULES),
    *_epochs((0, 5), (0, 5), "ncf", source=_RULES),
    *_epochs((1, 0), (4, 0), "resnet"),
    *_epochs((1, 0), (4, 1), "ssd"),
    *_epochs((2, 0), (5, 1), "retinanet"),
    *_epochs((1, 0), (3, 1), "maskrcnn", "rnnt"),
    EpochUnit("dlrm", (1, 0), (2, 1), "epochs", _REFERENCES, began_at=1.0, passes=True),
    *_epochs((3, 0), (6, 0), "dlrm_dcnv2"),
    *_epochs((4, 0), (5, 1), "gnn", "rgat"),
    # its own throughput counts 192 samples per epoch at batch size 32
    EpochUnit("unet3d", (1, 0), (3, 0), "epochs", _REFERENCES, passes=True, filled_up=True),
    EpochUnit("unet3d", (3, 1), (4, 0), "samples", _REFERENCES, passes=True),
    EpochUnit("bert", (0, 7), (0, 7), "samples", _LOGS),
    EpochUnit("bert", (1, 0), (5, 1), "samples", _REFERENCES),
    EpochUnit("llama2_70b_lora", (4, 0), (6, 1), "samples", _REFERENCES),
    EpochUnit("stable_diffusion", (3, 1), (5, 0), "samples", _REFERENCES),
    EpochUnit("flux1", (5, 1), (6, 1), "samples", _REFERENCES),
    EpochUnit("llama31_405b", (5, 0), (6, 0), "samples", _REFERENCES),
    EpochUnit("llama31_8b", (5, 1), (6, 1), "samples", _REFERENCES),
    EpochUnit("gpt_oss_20b", (6, 0), (6, 1), "samples", _REFERENCES),
    EpochUnit("deepseekv3_671b", (6, 0), (6, 1), "samples", _REFERENCES),
    EpochUnit("dlrmv4", (6, 1), (6, 1), "samples", _REFERENCES),
    EpochUnit("qwen35_397b_grpo", (6, 1), (6, 1), "samples", _REFERENCES),
    EpochUnit("gpt3", (3, 0), (4, 1), "tokens", _REFERENCES, GPT3_TOKENS_PER_SAMPLE),
)


def counted(benchmark: str | None, round_: str | None) -> EpochUnit | None:
    """What `epoch_num` counts; None if the table doesn't have the benchmark in that round.

    An unknown round doesn't matter if the benchmark's logs count the same way in all rounds.

    >>> counted("unet3d", "v3.0").what, counted("unet3d", "v3.1").what
    ('epochs', 'samples')
    >>> counted("resnet", None).what, counted("unet3d", None), counted("minigo", "v0.7")
    ('epochs', None, None)
    """
    if round_ is not None:
        return in_round(_EPOCH_NUM, benchmark, round_)
    known = [entry for entry in _EPOCH_NUM if entry.benchmark == benchmark]
    return known[-1] if len({entry.what for entry in known}) == 1 else None


_FROM_BEFORE: Final = (("bert", (1, 1), "Google"),)


def counts_from_before(benchmark: str | None, round_: str | None, submitter: str | None) -> str:
    """Why the counts say nothing about this run; "" if they do.

    Source: Google's BERT of v1.1, open division, which starts from a checkpoint after a hundred million
    samples.
    """
    if (benchmark, round_order(round_), submitter) not in _FROM_BEFORE:
        return ""
    return f"epoch_num counts from before run_start in {submitter}'s {benchmark} of {round_}: length unknown"


@dataclass(frozen=True)
class DataSet(InRounds):
    """Samples in the training set."""

    samples: int
    source: str


_COCO: Final = "COCO 2017: training images with boxes"
_OPEN_IMAGES: Final = "OpenImages v6 as used by MLPerf's RetinaNet"
_CRITEO: Final = "Criteo 1TB: days 0 to 22"
_C4: Final = "C4, as the reference implementation states it"
_DATA_SETS: Final = (
    DataSet("resnet", (0, 5), (4, 0), 1_281_167, "ImageNet 2012"),
    DataSet("ssd", (0, 5), (1, 1), 117_266, _COCO),
    DataSet("maskrcnn", (0, 5), (3, 1), 117_266, _COCO),
    DataSet("ssd", (2, 0), (4, 1), 1_170_301, _OPEN_IMAGES),
    DataSet("retinanet", (2, 0), (5, 1), 1_170_301, _OPEN_IMAGES),
    DataSet("unet3d", (1, 0), (4, 0), 168, "KiTS19: 168 of 210 cases"),
    DataSet("dlrm", (0, 7), (2, 1), 4_195_197_692, _CRITEO),
    DataSet("dlrm_dcnv2", (3, 0), (6, 0), 4_195_197_692, _CRITEO),
    DataSet("dlrmv4", (6, 1), (6, 1), 2_290_835_423, "the round's compliance rules"),
    DataSet("llama31_8b", (6, 0), (6, 1), 1_574_207_408, _C4),
    DataSet("llama31_405b", (6, 0), (6, 0), 1_574_207_408, _C4),
    DataSet("gpt_oss_20b", (6, 0), (6, 1), 1_574_207_408, _C4),
    DataSet("deepseekv3_671b", (6, 0), (6, 1), 1_574_207_408, _C4),
)


@dataclass(frozen=True)
class SampleUnit(InRounds):
    """What `train_samples` counts.

    submitters  as named in their logs or folders; empty: all others
    """

    what: Size
    source: str
    submitters: tuple[str, ...] = ()


_SEEN: Final = f"{_LOGS}: printed after the last evaluation, differs from run to run"
_SET: Final = f"{_LOGS}: the same in all"
_TRAIN_SAMPLES: Final = (
    SampleUnit("resnet", (0, 7), (4, 0), "data set", _SET),
    SampleUnit("ssd", (0, 7), (1, 1), "data set", _SET),
    SampleUnit("ssd", (2, 0), (4, 1), "data set", _SET, ("Google",)),
    SampleUnit("ssd", (2, 0), (4, 1), "batches", f"{_LOGS}: times the batch size it is 1,170,301"),
    SampleUnit("retinanet", (2, 0), (5, 1), "batches", f"{_LOGS}: times the batch size it is 1,170,301"),
    SampleUnit("maskrcnn", (0, 7), (3, 1), "data set", _SET, ("Google",)),
    SampleUnit("maskrcnn", (0, 7), (3, 1), "iterations", f"{_LOGS}: the limit that was configured"),
    SampleUnit("unet3d", (1, 0), (4, 0), "data set", _SET),
    SampleUnit("rnnt", (1, 0), (3, 1), "data set", f"{_LOGS}: LibriSpeech without samples that are too long"),
    SampleUnit("dlrm", (0, 7), (2, 1), "data set", _SET, ("Google",)),
    SampleUnit("dlrm", (0, 7), (2, 1), "samples seen", _SEEN),
    SampleUnit("dlrm_dcnv2", (3, 0), (6, 0), "data set", _SET),
    SampleUnit("dlrmv4", (6, 1), (6, 1), "data set", _RULES),
    SampleUnit("gnn", (4, 0), (4, 1), "data set", _SET),
    SampleUnit("rgat", (4, 0), (5, 1), "data set", _SET),
    SampleUnit("bert", (1, 1), (1, 1), "data set", f"{_LOGS}: more than any run takes", ("Google",)),
    SampleUnit(
        "bert", (0, 7), (5, 1), "samples allowed", f"{_LOGS}: the configured steps, times the batch size",
        ("Google", "Habana", "Intel-HabanaLabs"),
    ),
    SampleUnit("bert", (0, 7), (5, 1), "samples seen", _SEEN),
    SampleUnit("llama2_70b_lora", (4, 0), (6, 1), "data set", _SET),
    SampleUnit("stable_diffusion", (3, 1), (5, 0), "data set", _SET),
    SampleUnit("gpt3", (3, 0), (4, 1), "tokens seen", f"{_LOGS}: equal to the last epoch_num"),
    SampleUnit("llama31_8b", (5, 1), (5, 1), "samples seen", f"{_LOGS}: equal to the last samples_count"),
    *(
        SampleUnit(name, (6, 0), (6, 1), "samples allowed", f"{_LOGS}: the configured steps, or the data set")
        for name in ("llama31_8b", "llama31_405b", "gpt_oss_20b", "deepseekv3_671b")
    ),
)  # fmt: skip


def stated_size(benchmark: str | None, round_: str | None, submitter: str | None) -> SampleUnit | None:
    """What `train_samples` counts; None if the table doesn't have the benchmark in that round.

    >>> stated_size("bert", "v2.0", "Google").what, stated_size("bert", "v2.0", "NVIDIA").what
    ('samples allowed', 'samples seen')
    """
    table = [entry for entry in _TRAIN_SAMPLES if not entry.submitters or submitter in entry.submitters]
    if round_order(round_) is None:
        return next((entry for entry in table if entry.benchmark == benchmark), None)
    return in_round(table, benchmark, round_)


def data_set(benchmark: str | None, round_: str | None) -> DataSet | None:
    """The benchmark's training set in a round, if its size is known."""
    return in_round(_DATA_SETS, benchmark, round_)


def throughput_in_samples(
    stated: float | None, benchmark: str | None, round_: str | None, accelerators: int | None
) -> tuple[float | None, str]:
    """A log's own throughput in samples per second of all accelerators, and what was decided about it.

    None if the log states none, or that of one accelerator of an unknown number: RetinaNet's logs do,
    from the rounds in which it was called ssd. GPT-3's count tokens.

    Source: the published logs of v2.0 to v4.0, from their samples over time.
    """
    known, version = counted(benchmark, round_), round_order(round_)
    if stated is None:
        return None, ""
    if known is not None and known.what == "tokens":
        return stated / known.per_sample, "the log's own throughput counts tokens"
    if benchmark != "ssd" or version is None or not (2, 0) <= version <= (4, 1):
        return stated, ""
    note = f"the log's own throughput, {stated:,.5g} samples/s, is that of one accelerator"
    return (None if accelerators is None else stated * accelerators), note

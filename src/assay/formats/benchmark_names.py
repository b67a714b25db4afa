"""The names of MLPerf Training benchmarks, as used in MLCommons' result folders, and its rounds in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

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

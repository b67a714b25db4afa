"""Accuracy of a run, from LoadGen's accuracy log and the data's labels.

    python loadgen_accuracy.py mlperf_log_accuracy.json --data imagenet/val

| answer             | figure                                                                            |
|--------------------|-----------------------------------------------------------------------------------|
| class              | share of samples whose class is right (top-1)                                     |
| first, last token  | F1: overlap of the tokens answered and the tokens of the label, mean over samples |
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from loadgen_data import labelled


def accuracy(log: Path, labels: np.ndarray) -> float:
    """Share of 1 that the answers in `log` are right.

    labels  N classes, or N pairs of first and last token

    Raises ValueError where the log doesn't hold exactly one answer to each sample.
    """
    answers = json.loads(log.read_text())
    found = {
        entry["qsl_idx"]: np.frombuffer(bytes.fromhex(entry["data"]), dtype=np.int64) for entry in answers
    }
    if len(answers) != len(labels) or sorted(found) != list(range(len(labels))):
        raise ValueError(
            f"{log}: {len(answers)} answers to {len(found)} samples; expected one to each of {len(labels)}"
        )
    given = np.stack([found[index] for index in range(len(labels))])
    if labels.ndim == 1:
        return float((given[:, 0] == labels).mean())
    return float(np.mean([_overlap(answer, label) for answer, label in zip(given, labels, strict=True)]))


def _overlap(answer: np.ndarray, label: np.ndarray) -> float:
    """F1 of the tokens from first to last; an answer that ends before it begins has none.

    Source: SQuAD's evaluation, on tokens of the vocabulary instead of words.
    """
    common = min(answer[1], label[1]) - max(answer[0], label[0]) + 1
    if common <= 0:
        return 0.0
    return float(2 * common / (answer[1] - answer[0] + 1 + label[1] - label[0] + 1))


def main() -> None:
    """Read the command line and print the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="LoadGen's mlperf_log_accuracy.json")
    parser.add_argument("--data", type=Path, required=True, help="directory of a folder a class, or .npz")
    options = parser.parse_args()
    try:
        print(accuracy(options.log, labelled(options.data, ()).labels))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

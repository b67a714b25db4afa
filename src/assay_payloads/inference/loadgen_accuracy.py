"""Accuracy of a run, from LoadGen's accuracy log and the data's labels.

    python -m assay_payloads.inference.loadgen_accuracy mlperf_log_accuracy.json --data imagenet/val

| answer           | figure                                                         |
|------------------|----------------------------------------------------------------|
| class            | share of samples with the correct class (top-1)                |
| logits of tokens | SQuAD v1.1's F1 of the answer's words, mean over questions     |
| boxes            | COCO's average precision, mean over classes and IoU .50 to .95 |
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from assay_payloads.inference.loadgen_data import labeled
from assay_payloads.inference.loadgen_samples import Data

Answers = list[tuple[int, bytes]]
LOGITS_BYTES = 8  # per token: two of 32 bits


def answered(log: Path) -> Answers:
    """The contents of a log: sample numbers, and the answer to each.

    Raises OSError, and ValueError if it is empty or is not such a log.
    """
    try:
        answers = [(entry["qsl_idx"], bytes.fromhex(entry["data"])) for entry in json.loads(log.read_text())]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{log}: can't be read as LoadGen's accuracy log: {error}") from error
    if not answers:
        raise ValueError(f"{log}: has no answers; was it an accuracy run?")
    return answers


def accuracy(answers: Answers, data: Data) -> float:
    """The score of a log's answers, at most 1.

    Raises ValueError unless there is exactly one answer to each sample.
    """
    by_sample = dict(answers)
    if len(answers) != data.count or sorted(by_sample) != list(range(data.count)):
        raise ValueError(
            f"the accuracy log has {len(answers)} answers to {len(by_sample)} samples; expected one for each "
            f"of {data.count}"
        )
    return data.score([by_sample[index] for index in range(data.count)])


def main() -> None:
    """Read the command line and print the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="LoadGen's mlperf_log_accuracy.json")
    parser.add_argument("--data", type=Path, required=True, help="the run's data")
    options = parser.parse_args()
    try:
        answers = answered(options.log)
        tokens = len(answers[0][1]) // LOGITS_BYTES  # they determine how a text was cut; no image is read
        print(accuracy(answers, labeled(options.data, tokens)))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

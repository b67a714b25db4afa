"""Accuracy of a run, from LoadGen's accuracy log and the data's labels.

    python loadgen_accuracy.py mlperf_log_accuracy.json --data imagenet/val

| answer             | figure                                                                            |
|--------------------|-----------------------------------------------------------------------------------|
| class              | share of samples whose class is right (top-1)                                     |
| first, last token  | F1: overlap of the tokens answered and the tokens of the label, mean over samples |
| boxes              | COCO's average precision, mean over classes and IoU .50 to .95                    |
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from loadgen_data import Data, labelled


def accuracy(log: Path, data: Data) -> float:
    """What the answers in `log` are worth, at most 1.

    Raises ValueError where the log doesn't hold exactly one answer to each sample.
    """
    entries = json.loads(log.read_text())
    answers = {entry["qsl_idx"]: bytes.fromhex(entry["data"]) for entry in entries}
    if len(entries) != data.count or sorted(answers) != list(range(data.count)):
        raise ValueError(
            f"{log}: {len(entries)} answers to {len(answers)} samples; expected one to each of {data.count}"
        )
    return data.score([answers[index] for index in range(data.count)])


def main() -> None:
    """Read the command line and print the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="LoadGen's mlperf_log_accuracy.json")
    parser.add_argument("--data", type=Path, required=True, help="what the run was given")
    options = parser.parse_args()
    try:
        print(accuracy(options.log, labelled(options.data, ())))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

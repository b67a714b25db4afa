"""Stands for tf_cnn_benchmarks.py where there is no TensorFlow: its lines, of a rate that the test names.

Prints what the original prints (version 1.14, as recorded), with Horovod once a process.
"""

from __future__ import annotations

import os
import random
import sys

options = dict(option.removeprefix("--").split("=") for option in sys.argv[1:])
rate, broken = float(os.environ["STAND_IN_RATE"]), os.environ.get("STAND_IN_BREAKS", "")
workers = int(os.environ["WORLD_SIZE"]) if options["variable_update"] == "horovod" else 1
batch, batches = int(options["batch_size"]), int(options["num_batches"])
chance = random.Random(os.environ["ASSAY_SEED"])
rate *= chance.gauss(1.0, 0.002)

print("2019-10-22 16:34:21.555656: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1121] 0:   N")
print(f"""TensorFlow:  1.14
Model:       {options["model"]}
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  {batch * workers} global
             {batch} per device
Num batches: {batches}
Num epochs:  0.04
Devices:     ['/gpu:0']
NUMA bind:   False
Data format: {options.get("data_format", "NCHW")}
Optimizer:   sgd
Variables:   {options["variable_update"]}
==========
Generating training model
Initializing graph
Running warm up
Done warm up
Step\tImg/sec\ttotal_loss""")
for step in [1, *range(int(options["display_every"]), batches + 1, int(options["display_every"]))]:
    error = 0.0 if step == 1 else rate * 0.02 / step**0.5
    loss = "nan" if broken == "loss" and step == 20 else f"{8.1 - step / 2000:.3f}"
    print(f"{step}\timages/sec: {rate:.1f} +/- {error:.1f} (jitter = {rate * 0.005:.1f})\t{loss}")
if broken == "end":
    sys.exit()
print("-" * 64)
print(f"total images/sec: {rate * workers * (1 - 0.01 * (workers - 1)):.2f}")
print("-" * 64)

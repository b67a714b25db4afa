"""One file per foreign format: text to measurements."""

TOOL_NAMES = (
    "nccl-tests",
    "perftest",
    "iperf3",
    "param-comms",
    "nvbandwidth",
    "gpu-burn",
    "horovod",
    "timm",
    "deeplearningexamples",
    "fio",
    "elbencho",
    "ior",
    "mlperf-storage",
)
"""Programs whose logs are recognized; each has a module with its name that offers its `TOOL`."""

"""What can be run: one file a workload, listed here by name."""

from __future__ import annotations

from assay.workloads.allreduce import ALLREDUCE
from assay.workloads.bert import BERT
from assay.workloads.collectives import COLLECTIVES
from assay.workloads.command import COMMAND
from assay.workloads.digits import DIGITS
from assay.workloads.disk import DISK
from assay.workloads.gnmt import GNMT
from assay.workloads.gpu_checks import GPU_BURN, NVBANDWIDTH
from assay.workloads.inference import INFERENCE
from assay.workloads.iperf3 import IPERF3
from assay.workloads.llm_serving import LLM_SERVING
from assay.workloads.maskrcnn import MASKRCNN
from assay.workloads.matmul import MATMUL
from assay.workloads.membw import MEMBW
from assay.workloads.minigo import MINIGO
from assay.workloads.nccl_tests import NCCL_TESTS
from assay.workloads.ncf import NCF
from assay.workloads.perftest import PERFTEST
from assay.workloads.resnet50 import RESNET50
from assay.workloads.segmentation import SEGMENTATION
from assay.workloads.ssd import SSD
from assay.workloads.transformer import TRANSFORMER
from assay.workloads.unet3d import UNET3D
from assay.workloads.workload import Workload

__all__ = ["WORKLOADS", "Workload"]

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        *(RESNET50, SSD, MASKRCNN, UNET3D, SEGMENTATION),
        *(BERT, GNMT, TRANSFORMER, NCF, MINIGO, DIGITS),
        *(MATMUL, MEMBW, DISK, NVBANDWIDTH, GPU_BURN),
        *(ALLREDUCE, COLLECTIVES, NCCL_TESTS, PERFTEST, IPERF3, INFERENCE, LLM_SERVING, COMMAND),
    )
}

from assay.payloads.node_gpus import *

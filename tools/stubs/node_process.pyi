from assay.payloads.node_process import *

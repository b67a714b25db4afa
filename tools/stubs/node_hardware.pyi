from assay.payloads.node_hardware import *

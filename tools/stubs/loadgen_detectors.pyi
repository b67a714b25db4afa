from assay.payloads.loadgen_detectors import *

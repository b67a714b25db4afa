from assay.payloads.loadgen_backends import TYPES as TYPES
from assay.payloads.loadgen_backends import batch_sizes as batch_sizes
from assay.payloads.loadgen_backends import predictors as predictors

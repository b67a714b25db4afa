from assay.payloads.checkpoint import *

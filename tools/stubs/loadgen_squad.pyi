from assay.payloads.loadgen_squad import *

from assay.payloads.training import *

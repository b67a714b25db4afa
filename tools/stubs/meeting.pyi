from assay.payloads.meeting import *

from assay.payloads.processes import *

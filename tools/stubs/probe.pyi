from assay.payloads.probe import *

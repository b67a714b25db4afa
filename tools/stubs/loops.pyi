from assay.payloads.loops import *

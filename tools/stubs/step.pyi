from assay.payloads.step import *

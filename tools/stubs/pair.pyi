from assay.payloads.pair import *

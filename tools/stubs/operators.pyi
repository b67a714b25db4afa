from assay.payloads.operators import *

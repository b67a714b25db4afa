from assay.payloads.rank import *

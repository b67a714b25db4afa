from assay.payloads.lamb import *

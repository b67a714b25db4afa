from assay.payloads.squad import *

from assay.payloads.images import *

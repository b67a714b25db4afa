from assay.payloads.detection import *

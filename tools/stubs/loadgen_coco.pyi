from assay.payloads.loadgen_coco import *

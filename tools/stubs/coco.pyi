from assay.payloads.coco import *

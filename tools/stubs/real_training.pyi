from assay.payloads.real_training import *

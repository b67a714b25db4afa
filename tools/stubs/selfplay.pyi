from assay.payloads.selfplay import *

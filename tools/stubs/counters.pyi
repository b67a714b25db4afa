from assay.payloads.counters import *

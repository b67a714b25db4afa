from assay.payloads.memory import *

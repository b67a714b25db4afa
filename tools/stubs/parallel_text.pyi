from assay.payloads.parallel_text import *

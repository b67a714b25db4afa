from assay.payloads.masked_text import *

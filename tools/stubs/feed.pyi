from assay.payloads.feed import *

from assay.payloads.translation import *

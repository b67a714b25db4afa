from assay.payloads.site_program import *

from assay.payloads.go import *

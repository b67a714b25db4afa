from assay.payloads.disk import *

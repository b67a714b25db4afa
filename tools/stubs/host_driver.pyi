from assay.payloads.host_driver import *

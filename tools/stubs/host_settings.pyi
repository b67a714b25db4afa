from assay.payloads.host_settings import *

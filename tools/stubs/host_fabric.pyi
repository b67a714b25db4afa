from assay.payloads.host_fabric import *

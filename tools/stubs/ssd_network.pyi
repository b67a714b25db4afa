from assay.payloads.ssd_network import *

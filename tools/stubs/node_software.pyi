from assay.payloads.node_software import *

from assay.payloads.host_pci import *

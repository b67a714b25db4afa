from assay.payloads.host_tools import *

from assay.payloads.cgroups import *

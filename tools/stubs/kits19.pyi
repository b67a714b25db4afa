from assay.payloads.kits19 import *

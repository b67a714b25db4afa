from assay.payloads.file_tree import *

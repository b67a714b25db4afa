from assay.payloads.page_cache import *

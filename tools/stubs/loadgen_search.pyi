from assay.payloads.loadgen_search import highest as highest

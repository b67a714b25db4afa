from assay.payloads.loadgen_accuracy import accuracy as accuracy

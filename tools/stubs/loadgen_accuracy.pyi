from assay.payloads.loadgen_accuracy import accuracy as accuracy
from assay.payloads.loadgen_accuracy import answered as answered

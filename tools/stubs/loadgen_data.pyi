from assay.payloads.loadgen_data import Arrays as Arrays
from assay.payloads.loadgen_data import Data as Data
from assay.payloads.loadgen_data import labelled as labelled

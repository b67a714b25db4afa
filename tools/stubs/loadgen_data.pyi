from assay.payloads.loadgen_data import BOXES as BOXES
from assay.payloads.loadgen_data import CLASSES as CLASSES
from assay.payloads.loadgen_data import PIECES as PIECES
from assay.payloads.loadgen_data import SPANS as SPANS
from assay.payloads.loadgen_data import SQUAD as SQUAD
from assay.payloads.loadgen_data import Arrays as Arrays
from assay.payloads.loadgen_data import Data as Data
from assay.payloads.loadgen_data import labelled as labelled

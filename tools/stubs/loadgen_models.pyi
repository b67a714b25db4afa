from assay.payloads.loadgen_models import MODELS as MODELS
from assay.payloads.loadgen_models import Model as Model

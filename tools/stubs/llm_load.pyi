from assay.payloads.llm_load import PATHS as PATHS
from assay.payloads.llm_load import Client as Client
from assay.payloads.llm_load import Lengths as Lengths
from assay.payloads.llm_load import Request as Request
from assay.payloads.llm_load import Stretch as Stretch
from assay.payloads.llm_load import poisson_arrivals as poisson_arrivals

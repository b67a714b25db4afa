from assay.payloads.llm_client import arguments as arguments
from assay.payloads.llm_client import random_start as random_start
from assay.payloads.llm_client import search as search

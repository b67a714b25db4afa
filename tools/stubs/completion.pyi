from assay.payloads.completion import Answer as Answer
from assay.payloads.completion import Endpoint as Endpoint
from assay.payloads.completion import FailedRequest as FailedRequest

from assay.payloads.loadgen_sut import EndsTheRun as EndsTheRun
from assay.payloads.loadgen_sut import Library as Library
from assay.payloads.loadgen_sut import Predict as Predict
from assay.payloads.loadgen_sut import SystemUnderTest as SystemUnderTest

from assay.payloads.mpi_exchange import *

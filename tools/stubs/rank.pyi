from assay.payloads.rank import END as END
from assay.payloads.rank import START as START
from assay.payloads.rank import Rank as Rank

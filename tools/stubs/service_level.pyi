from assay.payloads.service_level import Bounds as Bounds
from assay.payloads.service_level import backlog_growth as backlog_growth
from assay.payloads.service_level import fewest as fewest
from assay.payloads.service_level import percentile as percentile

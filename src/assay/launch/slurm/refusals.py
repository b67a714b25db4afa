"""Which jobs Slurm would also refuse, judging by its message about one, and which would wait in vain."""

from __future__ import annotations

import re
from typing import Final

from assay.records import Extent

# Source: slurm_errno.c; the first match counts
REFUSALS: Final = (
    (
        r"invalid account|qos specification|partition (name )?specified|partition not available"
        r"|not permitted|permission denied|reservation|unable to contact|timed out|authentication",
        Extent.PLATFORM,
    ),
    (r"time limit", Extent.BENCHMARK),
    (r"node configuration|partition configuration|node count|memory", Extent.SHAPE),
    (r"feature specification|gres|generic resource|node name|unrecognized option|invalid", Extent.SYSTEM),
)
# Source: squeue(1), JOB REASON CODES
HOPELESS: Final = {
    "PartitionDown": Extent.PLATFORM,
    "PartitionInactive": Extent.PLATFORM,
    "InvalidAccount": Extent.PLATFORM,
    "InvalidQOS": Extent.PLATFORM,
    "AccountNotAllowed": Extent.PLATFORM,
    "QOSNotAllowed": Extent.PLATFORM,
    "PartitionTimeLimit": Extent.BENCHMARK,
    "PartitionNodeLimit": Extent.SHAPE,
    "PartitionConfig": Extent.SHAPE,
    "BadConstraints": Extent.SHAPE,
}


def extent_of(message: str) -> Extent:
    """Which jobs it would refuse for the same reason as this one.

    >>> extent_of("sbatch: error: Batch job submission failed: Requested node configuration is not available")
    <Extent.SHAPE: 'shape'>
    """
    extents = (extent for pattern, extent in REFUSALS if re.search(pattern, message, re.IGNORECASE))
    return next(extents, Extent.POINT)

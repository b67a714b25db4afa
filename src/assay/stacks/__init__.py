"""Software stacks: which runs how fast where, and container files composed of compatible parts."""

from typing import Final

from assay.registry import CommandTable

COMMANDS: Final = CommandTable(
    """Show which software runs how fast where; write a container file for a workload.

    \b
    Examples:
      assay stack show
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
    """,
    {
        "show": ("assay.stacks.known:ShowStack", "Show the stacks that runs have observed, or one of them."),
        "diff": (
            "assay.stacks.diff:DiffStacks",
            "Show what differs between two stacks, and what is known of it.",
        ),
        "advise": (
            "assay.stacks.advise:AdviseStack",
            "Lock the versions to install for a goal, with the reasons.",
        ),
        "indicators": (
            "assay.stacks.indicators:StackIndicators",
            "Show how well indicators predict workloads.",
        ),
        "export": (
            "assay.stacks.sharing:ExportStacks",
            "Write what runs observed as a signed bundle for others.",
        ),
        "import": ("assay.stacks.sharing:ImportStacks", "Take in a bundle that others signed."),
        "trust": ("assay.stacks.sharing:TrustKey", "Trust a key, or show the keys."),
        "explore": (
            "assay.stacks.explore:ExploreStacks",
            "Build and measure many stacks; find which is faster.",
        ),
        "bisect": (
            "assay.stacks.bisect:BisectStacks",
            "Find the change that made a stack slower, or made it fail.",
        ),
        "containerfile": (
            "assay.stacks.containerfile:PrintContainerfile",
            "Print a container file for a workload or a lock.",
        ),
        "build": ("assay.stacks.build:BuildStack", "Build a container file, test the image, push it."),
    },
)

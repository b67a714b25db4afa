"""Software stacks: which runs how fast where, and container files composed of compatible parts."""

from typing import Final

from assay.registry import CommandTable

COMMANDS: Final = CommandTable(
    """Show which software runs how fast where; write a container file for a workload.

    \b
    Examples:
      assay stack list
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
    """,
    {
        "list": ("assay.stacks.known:ListStacks", "List the stacks that runs have observed."),
        "show": ("assay.stacks.known:ShowStack", "Show what is known of a stack."),
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
            "assay.cli.stack_explore:command",
            "Build and measure many stacks; find which is faster.",
        ),
        "bisect": (
            "assay.cli.stack_bisect:command",
            "Find the change that made a stack slower, or made it fail.",
        ),
        "containerfile": (
            "assay.stacks.containerfile:PrintContainerfile",
            "Print a container file for a workload or a lock.",
        ),
        "build": ("assay.cli.stack_build:command", "Build a container file, test the image, push it."),
    },
)

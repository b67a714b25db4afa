"""Software stacks: container files composed of compatible parts."""

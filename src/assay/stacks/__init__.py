"""Software stacks: container files put together from parts that fit each other."""

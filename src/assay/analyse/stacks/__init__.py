"""What observations of software stacks show: levels, and the effect of a change."""

"""Jobs of a Slurm cluster: a batch script starts a keeper on each node; shared files tell the rest."""

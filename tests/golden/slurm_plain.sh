#!/bin/bash
#SBATCH --job-name=assay-<token>
#SBATCH --comment=training-2x8-gr_e_r01
#SBATCH --output=slurm-%j.log
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time=6
#SBATCH --no-requeue
readonly ASSAY_JOB="$PWD"
if ! [ -f spec.json ]; then
    echo "assay: $(hostname) does not see the job's directory" >&2
    exit 74
fi
echo "$SLURM_JOB_ID" > "taken.$SLURM_JOB_ID"
if ! ln "taken.$SLURM_JOB_ID" taken; then
    echo "assay: the job was abandoned, or was started before" >&2
    exit 75
fi
exec srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 \
    --cpu-bind=none --kill-on-bad-exit=1 --input=none \
    python3 -I -S "$ASSAY_JOB/assay_payloads/keeping/keeper.py" "$ASSAY_JOB"

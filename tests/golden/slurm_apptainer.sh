#!/bin/bash
#SBATCH --job-name=assay-<token>
#SBATCH --comment=training-2x8-gr_e_r01
#SBATCH --output=slurm-%j.log
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=6
#SBATCH --no-requeue
#SBATCH --gres=gpu:8
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
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
MASTER_PORT="$((10000 + SLURM_JOB_ID % 20000))"
export MASTER_ADDR MASTER_PORT
exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8 \
    --cpu-bind=none --kill-on-bad-exit=1 --input=none \
    apptainer exec --nv --bind "$ASSAY_JOB:$ASSAY_JOB" '/images/my torch.sif' \
    python3 -I -S "$ASSAY_JOB/assay_payloads/keeping/keeper.py" "$ASSAY_JOB" --node-from SLURM_NODEID

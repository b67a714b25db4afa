#!/bin/bash
#SBATCH --job-name=assay-<token>
#SBATCH --comment=training-2x8-gr_e_r01
#SBATCH --output=slurm-%j.log
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=48
#SBATCH --time=11
#SBATCH --no-requeue
#SBATCH --gres=gpu:a100:4
#SBATCH --clusters=alps
#SBATCH --partition=gpu,long
#SBATCH --account=proj-7
#SBATCH --qos=high
#SBATCH --reservation=maint
#SBATCH --constraint=a100&nvme*2
#SBATCH --nodelist=gpu[01-04]
#SBATCH --exclude=gpu03
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --switches=1
#SBATCH --hint=nomultithread
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
set -e
module load cuda/12.8
source "$HOME/env.sh"
set +e
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
MASTER_PORT="$((10000 + SLURM_JOB_ID % 20000))"
export MASTER_ADDR MASTER_PORT
exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=48 \
    --cpu-bind=none --kill-on-bad-exit=1 --input=none \
    --container-image='nvcr.io#nvidia/pytorch:25.01-py3' \
    --container-mounts="$ASSAY_JOB:$ASSAY_JOB",/data:/data:ro,'/scratch/a b:/scratch' \
    '/opt/my env/bin/python' -I -S "$ASSAY_JOB/assay_payloads/keeping/keeper.py" "$ASSAY_JOB" --node-from SLURM_NODEID

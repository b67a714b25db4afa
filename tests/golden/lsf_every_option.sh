#!/bin/bash
#BSUB -J assay-<token>
#BSUB -Jd training-2x8-gr_e_r01
#BSUB -o /dev/null
#BSUB -n 96
#BSUB -R "span[ptile=48]"
#BSUB -W 11
#BSUB -rn
#BSUB -gpu "num=4:mode=exclusive_process:mps=no"
#BSUB -R "select[type==any && mem>64000]"
#BSUB -R "rusage[mem=32000/host]"
#BSUB -m "gpu01 rack2"
#BSUB -q gpu
#BSUB -P proj-7
#BSUB -G bench
#BSUB -app pytorch
#BSUB -U user1#0
#BSUB -M 64G
#BSUB -x
#BSUB -sla gold
#BSUB -H
readonly ASSAY_JOB="$PWD"
if ! [ -f spec.json ]; then
    echo "assay: $(hostname) does not see the job's directory" >&2
    exit 74
fi
echo "$LSB_JOBID" > "taken.$LSB_JOBID"
if ! ln "taken.$LSB_JOBID" taken; then
    echo "assay: the job was abandoned, or was started before" >&2
    exit 75
fi
exec > "$ASSAY_JOB/lsf-$LSB_JOBID.log" 2>&1
trap '' INT
set -e
module load cuda/12.8
source "$HOME/env.sh"
set +e
mapfile -t ASSAY_HOSTS < <(awk '!seen[$1]++ { print $1 }' "$LSB_DJOB_HOSTFILE")
if [ "${#ASSAY_HOSTS[@]}" -ne 2 ]; then
    echo "assay: LSF did not give the job 2 hosts: ${ASSAY_HOSTS[*]}"
    exit 76
fi
MASTER_ADDR="${ASSAY_HOSTS[0]}"
MASTER_PORT="$((10000 + LSB_JOBID % 20000))"
start() {
    trap : TERM USR2
    blaunch "${ASSAY_HOSTS[$1]}" env ASSAY_NODE="$1" MASTER_ADDR="$MASTER_ADDR" MASTER_PORT="$MASTER_PORT" \
        /opt/my-env/bin/python -I -S "$ASSAY_JOB/assay_payloads/keeping/keeper.py" "$ASSAY_JOB" --node-from ASSAY_NODE < /dev/null && return
    local code=$? node pid
    for node in "${!ASSAY_HOSTS[@]}"; do
        pid="$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$ASSAY_JOB/node-$node/claim.json" 2> /dev/null)"
        if [ "$node" -ne "$1" ] && [ -n "$pid" ]; then
            blaunch "${ASSAY_HOSTS[$node]}" kill -TERM "$pid" < /dev/null 2> /dev/null
        fi
    done
    return "$code"
}
trap : TERM USR2
tasks=()
for node in "${!ASSAY_HOSTS[@]}"; do
    start "$node" &
    tasks+=("$!")
done
worst=0
for task in "${tasks[@]}"; do
    while wait "$task"; code=$?; kill -0 "$task" 2> /dev/null; do :; done
    if [ "$code" -ne 0 ]; then worst="$code"; fi
done
exit "$worst"

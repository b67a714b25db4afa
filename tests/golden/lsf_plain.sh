#!/bin/bash
#BSUB -J assay-<token>
#BSUB -Jd training-2x8-gr_e_r01
#BSUB -o /dev/null
#BSUB -n 1
#BSUB -R "span[ptile=1]"
#BSUB -W 6
#BSUB -rn
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
exec python3 -I -S "$ASSAY_JOB/assay_payloads/keeping/keeper.py" "$ASSAY_JOB" < /dev/null

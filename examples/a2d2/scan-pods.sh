#!/bin/sh
# Catalog the frames of a directory and choose two sets of them, in the pod that scan-pods.yaml starts:
#
#   sh scan-pods.sh PYTHON DATA        PYTHON has Assay with the extra `data`; DATA has camera_lidar_semantic/
set -eu
export ASSAY_CATALOG="$2/a2d2.duckdb"
"$1" -m assay data scan "$2/camera_lidar_semantic"
"$1" -m assay data query --manifest "$2/all.jsonl"
"$1" -m assay data query 'camera = cam_front_center' --split 80/20 --manifest "$2/front.jsonl"
cp "$ASSAY_CATALOG" "$2/all.jsonl" "$2/front-1.jsonl" .  # kept with the run

#!/bin/sh
# Synchronous training started by torchrun, once on each node: NODES=4 HEAD=node1 sh examples/clusters/torchrun.sh
# lockstep reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and uses the store that torchrun serves.
set -eu
exec torchrun --nnodes "${NODES:-1}" --nproc-per-node "${WORKERS:-2}" --max-restarts 3 \
  --rdzv-backend c10d --rdzv-endpoint "${HEAD:-localhost}:${PORT:-29500}" --no-python \
  lockstep fit "${MODEL:-model.keras}" --data "${DATA:-train.npz}" --epochs "${EPOCHS:-100}" --batch-size 512 \
  --strategy multi_worker --checkpoint-dir "${RUN:-run}" --save "${RUN:-run}/trained.keras"

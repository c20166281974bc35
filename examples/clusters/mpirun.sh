#!/bin/sh
# Synchronous training started by Open MPI: HOSTS=node1:2,node2:2 sh examples/clusters/mpirun.sh
# Rank 0 runs on the first host, whose name the others get by MASTER_ADDR.
set -eu
HOSTS=${HOSTS:-localhost:2}
export MASTER_ADDR="${HOSTS%%[:,]*}" MASTER_PORT="${MASTER_PORT:-8888}"
exec mpirun --host "$HOSTS" -x MASTER_ADDR -x MASTER_PORT -x OMP_NUM_THREADS --bind-to none \
  lockstep fit "${MODEL:-model.keras}" --data "${DATA:-train.npz}" --epochs "${EPOCHS:-100}" --batch-size 512 \
  --strategy multi_worker --checkpoint-dir "${RUN:-run}" --save "${RUN:-run}/trained.keras"

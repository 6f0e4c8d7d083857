#!/bin/sh
# One process a shard with Open MPI: tools/examples/cluster/explore_mpirun.sh 8 --sglang pr29461, then a2asim merge shards/*.json.
# A shard that died is run again alone: a2asim explore --shard 5/8 .. > shards/5.json
set -eu
ranks=$1
shift
mkdir -p shards
exec mpirun -n "$ranks" sh -c '
  part=shards/$OMPI_COMM_WORLD_RANK
  code=0
  "${A2ASIM:-a2asim}" explore "$@" --shard auto --threads 1 --format json > "$part.part" || code=$?
  if [ "$code" -gt 1 ]; then exit "$code"; fi
  mv "$part.part" "$part.json"' explore "$@"

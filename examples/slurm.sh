#!/bin/sh
# sh slurm.sh MODEL TASK [OPTIONS of both commands]: four jobs extract, and eight train what is missing.
# EXTRACT holds options of the extraction alone, such as EXTRACT="--kind sentence".
# Jobs that are requeued go on from finished units and runs. SBATCH_PARTITION, SBATCH_TIMELIMIT and SBATCH_GPUS say
# where and for how long they run; every node must see the current folder.
extract="exec probekit extract $* $EXTRACT --shard \$SLURM_ARRAY_TASK_ID/4"
sweep="exec probekit sweep $* --head last,p32,dwatt --shots 8,32,128 --seeds 5"
first=$(sbatch --parsable --requeue --array=1-4 --wrap "$extract")
sbatch --requeue --array=1-8 --dependency="afterok:$first" --wrap "$sweep"

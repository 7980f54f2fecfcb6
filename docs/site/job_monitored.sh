#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=32
#SBATCH --time=3-00:00:00
#SBATCH --output=job-%j.out

module load openmpi mpiprof # openmpi: the modules that the program needs

# Each rank writes at most 1 MB of events. After 10 minutes without any call the job is diagnosed
# in its output. node_exporter reads the metrics.
srun mpiprof run --or-bare --record ring --watch 10m \
    --summary-to "/var/lib/node_exporter/textfile/mpiprof-$SLURM_JOB_ID.prom" \
    -o "trace-$SLURM_JOB_ID" -- ./solver input.nml

#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=32
#SBATCH --output=job-%j.out

module load openmpi mpiprof # openmpi: the modules that the program needs

srun mpiprof run -o "trace-$SLURM_JOB_ID" -- ./solver input.nml
mpiprof report "trace-$SLURM_JOB_ID" -o "report-$SLURM_JOB_ID.md"

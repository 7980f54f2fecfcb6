#!/bin/bash
# TaskProlog of slurm.conf: records each step of a job that sets SITE_MPIPROF=1.
#
# Slurm runs this file as the user before each task, without a search path, so it uses only what
# bash itself contains. Slurm applies each printed line "export NAME=value" to the task.
root=/apps/mpiprof/0.1.0 # made by install.sh

[[ ${SITE_MPIPROF:-} == 1 ]] || exit 0
# The batch script is a task too. Its number is above those of srun's steps.
[[ ${SLURM_STEP_ID:-} =~ ^[0-9]+$ ]] && ((SLURM_STEP_ID < 0xfffffff0)) || exit 0

refuse() { # prints the reason in the first task's output; the step runs unrecorded
    ((SLURM_PROCID == 0)) && echo "print mpiprof: step $SLURM_STEP_ID is not recorded: $1"
    exit 0
}

# The recorder must have the ABI of the program's MPI, so the program must use the loaded module.
case ${LMOD_FAMILY_MPI:-none}/${LMOD_FAMILY_MPI_VERSION:-} in
openmpi/4.*) recorder=openmpi-3 ;;
openmpi/5.*) recorder=openmpi-4 ;;
mpich/3.*) recorder=mpich-3 ;;
mpich/4.[01]*) recorder=mpich-4c ;;
mpich/[45].*) recorder=mpich-4.1 ;;
none/*) refuse "no MPI module is loaded" ;;
*) refuse "$LMOD_FAMILY_MPI/$LMOD_FAMILY_MPI_VERSION is not in the list of the TaskProlog" ;;
esac
libraries=("$root"/lib/python3*/site-packages/mpiprof/lib/libmpiprof-"$recorder".so)
[[ -r ${libraries[0]} ]] || refuse "${libraries[0]} is missing"

step=$SLURM_JOB_ID.$SLURM_STEP_ID
echo "export LD_PRELOAD=${libraries[0]}${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export MPIPROF_LIBRARY=${libraries[0]}"
echo "export MPIPROF_VERSION=${root##*/}"
echo "export MPIPROF_RECORD=ring:1048576"
echo "export MPIPROF_JOB=$step"
echo "export MPIPROF_BASE=$SLURM_SUBMIT_DIR/mpiprof-$step" # mpiprof-4711.0-20261123-055312
echo "export MPIPROF_ALONE=$SLURM_SUBMIT_DIR/mpiprof-job-$step"

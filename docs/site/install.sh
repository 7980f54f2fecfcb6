#!/bin/bash
# usage: install.sh VERSION: installs mpiprof for all users, beside other versions
set -euo pipefail
root=/apps/mpiprof/$1

python3 -m venv "$root"
"$root/bin/python" -m pip install "mpiprof-arrivals[dashboard,export,pack]==$1"
mkdir "$root/command" # for PATH: it contains the command, and no python
ln -s ../bin/mpiprof "$root/command/mpiprof"

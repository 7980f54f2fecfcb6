-- Lmod: the file mpiprof/0.1.0.lua in a folder of MODULEPATH. Its name sets the version.
local root = pathJoin("/apps/mpiprof", myModuleVersion()) -- made by install.sh

help([[
mpiprof shows which rank of an MPI program makes the others wait, and why.

    srun mpiprof run -o trace -- ./solver input.nml
    srun mpiprof run -o trace -- python app.py
    mpiprof report trace
]])
whatis("Name: mpiprof")
whatis("Version: " .. myModuleVersion())
whatis("Category: performance analysis, MPI")
whatis("Description: Shows which rank of an MPI program makes the others wait, and why")

-- Only the command: the folder bin of the environment also contains a python, which would replace
-- the user's.
prepend_path("PATH", pathJoin(root, "command"))

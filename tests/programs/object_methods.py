"""Calls mpi4py's methods for Python objects, each on a line of its own.

A communicator that the program duplicates itself has the calls of `bcast` only.
"""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
last = size - 1
duplicate = comm.Dup()
duplicate.bcast([rank])

comm.reduce([rank])
comm.reduce([rank], root=last)
comm.allreduce([rank])
comm.scan([rank])
comm.exscan([rank])
duplicate.allreduce([rank])

comm.bcast([rank])
comm.bcast([rank], root=last)
comm.gather([rank], root=last)
comm.allgather([rank])
comm.scatter([[i] for i in range(size)], root=last)
comm.alltoall([[i] for i in range(size)])
comm.sendrecv([rank], dest=(rank + 1) % size, source=(rank - 1) % size)

grid = comm.Create_cart([size], periods=[True])
grid.neighbor_allgather([rank])
grid.neighbor_alltoall([[rank], [rank]])

is_low = rank < (size + 1) // 2
group = MPI.Intracomm(comm.Split(is_low, rank))
inter = group.Create_intercomm(0, comm, (size + 1) // 2 if is_low else 0)
root = 0 if is_low else MPI.PROC_NULL if group.rank else MPI.ROOT
inter.reduce([rank], root=root)
inter.allreduce([rank])
inter.bcast([rank], root=root)
inter.gather([rank], root=root)
inter.allgather([rank])
inter.scatter([[i] for i in range(inter.remote_size)], root=root)
inter.alltoall([[i] for i in range(inter.remote_size)])
MPI.COMM_SELF.allreduce([rank])

! Messages between 2 ranks from Fortran. BINDING: 0 mpif.h, 1 mpi, 2 mpi_f08.
#if BINDING == 2
#define REQUEST type(MPI_Request)
#define STATUS(name) type(MPI_Status) :: name
#else
#define REQUEST integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#endif
program messages
#if BINDING == 2
  use mpi_f08
#elif BINDING == 1
  use mpi
#endif
  implicit none
#if BINDING == 0
  include 'mpif.h'
#endif
  integer :: rank, index, count, i, ierror
  integer :: numbers(100), others(100)
  REQUEST :: requests(2)
  STATUS(status)
#if BINDING == 2
  type(MPI_Status) :: statuses(2)
#else
  integer :: statuses(MPI_STATUS_SIZE, 2)
#endif

  numbers = 7
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  if (rank == 1) then
    call MPI_Send(numbers, 3, MPI_INTEGER, 0, 3, MPI_COMM_WORLD, ierror)
    call MPI_Send(numbers, 4, MPI_INTEGER, 0, 4, MPI_COMM_WORLD, ierror)
    call MPI_Isend(numbers, 2, MPI_INTEGER, 0, 2, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Send(numbers, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, ierror)
  else
    call MPI_Recv(numbers, 100, MPI_INTEGER, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, &
                  ierror)
    call MPI_Recv(numbers, 100, MPI_INTEGER, 1, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    print '(a, i0)', 'count ', count
    call MPI_Irecv(numbers, 100, MPI_INTEGER, 1, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Irecv(others, 100, MPI_INTEGER, 1, 2, MPI_COMM_WORLD, requests(2), ierror)
    do i = 1, 2
      call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierror)
      if (i == 1) call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end do
    print '(a, i0, 1x, i0)', 'received ', numbers(1), others(1)
  end if
  ! Each wildcard shows its source and bytes only in a status.
  do i = 5, 7
    if (rank == 1) then
      call MPI_Ssend(numbers, i, MPI_INTEGER, 0, i, MPI_COMM_WORLD, ierror)
    else
      call MPI_Irecv(numbers, 100, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
                     requests(1), ierror)
      if (i == 5) call MPI_Wait(requests(1), status, ierror)
      if (i == 6) call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
      if (i == 7) call MPI_Waitall(1, requests, statuses, ierror)
    end if
  end do
  call MPI_Finalize(ierror)
end program

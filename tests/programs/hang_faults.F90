! A Fortran program that goes wrong in one known way, or in none, after rounds of sound collectives.
!
!     hang_faults KIND OPERATION ODD COUNT FORM
!
! KIND: operation (a barrier in place of an allreduce), root (of a bcast), count (of an allreduce),
! leave (go to MPI_Finalize before an allgather), order (of barriers on two communicators), none. ODD: the rank that does it.
program faults
  use mpi
  implicit none
  character(len=32) :: kind, word
  integer :: rank, size, error, odd, count, i, other
  integer, allocatable :: given(:), taken(:)
  logical :: wrong

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call get_command_argument(1, kind)
  call get_command_argument(3, word)
  read (word, *) odd
  call get_command_argument(4, word)
  read (word, *) count
  allocate (given(8*count*size), taken(8*count*size))
  given = rank
  wrong = rank == odd
  call MPI_Comm_dup(MPI_COMM_WORLD, other, error)
  do i = 1, 8
    call MPI_Allreduce(given, taken, count, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Bcast(taken, count, MPI_INTEGER, mod(i, size), MPI_COMM_WORLD, error)
    call MPI_Barrier(other, error)
  end do
  select case (kind)
  case ('operation')
    if (wrong) then
      call MPI_Barrier(MPI_COMM_WORLD, error)
    else
      call MPI_Allreduce(given, taken, count, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    end if
  case ('root')
    i = 0
    if (wrong) i = 1
    call MPI_Bcast(taken, count, MPI_INTEGER, i, MPI_COMM_WORLD, error)
  case ('count')
    i = count
    if (wrong) i = 2*count
    call MPI_Allreduce(given, taken, i, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  case ('leave')
    if (.not. wrong) call MPI_Allgather(given, count, MPI_INTEGER, taken, count, MPI_INTEGER, &
                                        MPI_COMM_WORLD, error)
  case ('order')
    if (wrong) then
      call MPI_Barrier(other, error)
      call MPI_Barrier(MPI_COMM_WORLD, error)
    else
      call MPI_Barrier(MPI_COMM_WORLD, error)
      call MPI_Barrier(other, error)
    end if
  end select
  if (kind /= 'leave') call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program faults

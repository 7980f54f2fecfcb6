! Collectives on MPI_BOTTOM from Fortran: each rank checks its results, and stops with 1 where one is
! wrong. BINDING: 0 mpif.h, 1 mpi, 2 mpi_f08.
#if BINDING == 2
#define TYPE_OF_DATA type(MPI_Datatype)
#else
#define TYPE_OF_DATA integer
#endif
program bottom
#if BINDING == 2
  use mpi_f08
#elif BINDING == 1
  use mpi
#endif
  implicit none
#if BINDING == 0
  include 'mpif.h'
#endif
  integer, parameter :: count = 3
  integer, target :: from(count * 8), to(count * 8)
  integer :: rank, size, ierror, i, turn, wrong, ones(8), backwards(8)
  TYPE_OF_DATA :: sent, got, last

  wrong = 0
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  sent = steps(from)
  got = steps(to)
  last = steps(to((size - 1) * count + 1:))
  ones = 1
  backwards = (/(i + 1 - size, i = 0, 7)/)
  do turn = 1, 3
    call prepare()
    if (rank == 1) then
      call MPI_Bcast(MPI_BOTTOM, 1, sent, 1, MPI_COMM_WORLD, ierror)
    else
      call MPI_Bcast(MPI_BOTTOM, 1, got, 1, MPI_COMM_WORLD, ierror)
      call look(to)
      if (any(to(1:count) /= (/(100 + i, i = 1, count)/))) call complain('bcast')
    end if
    call prepare()
    call MPI_Gather(MPI_BOTTOM, 1, sent, MPI_BOTTOM, 1, got, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) call expect('gather')
    call prepare()
    call MPI_Allgather(MPI_BOTTOM, 1, sent, MPI_BOTTOM, 1, got, MPI_COMM_WORLD, ierror)
    call expect('allgather')
    call prepare()
    to(rank * count + 1:(rank + 1) * count) = from(1:count)
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, MPI_BOTTOM, 1, got, MPI_COMM_WORLD, ierror)
    call expect('allgather in place')
    call prepare()
    call MPI_Allgatherv(MPI_BOTTOM, 1, sent, MPI_BOTTOM, ones, backwards, last, MPI_COMM_WORLD, &
                        ierror)
    call expect('allgatherv')
    call prepare()
    call MPI_Scatter(MPI_BOTTOM, 1, sent, MPI_BOTTOM, 1, got, 1, MPI_COMM_WORLD, ierror)
    call look(to)
    if (any(to(1:count) /= (/(100 + rank * count + i, i = 1, count)/))) call complain('scatter')
    call prepare()
    call MPI_Alltoall(MPI_BOTTOM, 1, sent, MPI_BOTTOM, 1, got, MPI_COMM_WORLD, ierror)
    call look(to)
    do i = 0, size * count - 1
      if (to(i + 1) /= 100 * (i / count) + rank * count + mod(i, count) + 1) call complain('alltoall')
    end do
  end do
  call MPI_Finalize(ierror)
  if (wrong > 0) stop 1

contains

  ! Blocks at an absolute address, one after the other.
  function steps(numbers) result(resized)
    integer, target :: numbers(*)
    TYPE_OF_DATA :: resized, absolute
    integer(MPI_ADDRESS_KIND) :: place

    call MPI_Get_address(numbers, place, ierror)
    call MPI_Type_create_hindexed(1, (/count/), (/place/), MPI_INTEGER, absolute, ierror)
    call MPI_Type_create_resized(absolute, 0_MPI_ADDRESS_KIND, &
                                 int(4 * count, MPI_ADDRESS_KIND), resized, ierror)
    call MPI_Type_commit(resized, ierror)
  end function

  subroutine prepare()
    do i = 1, count * 8
      from(i) = 100 * rank + i
      to(i) = -1
    end do
    call look(from)
    call look(to)
  end subroutine

  subroutine expect(name)
    character(*), intent(in) :: name

    call look(to)
    do i = 0, size * count - 1
      if (to(i + 1) /= 100 * (i / count) + mod(i, count) + 1) call complain(name)
    end do
  end subroutine

  subroutine complain(name)
    character(*), intent(in) :: name

    print *, rank, name
    wrong = wrong + 1
  end subroutine

  ! The compiler may not know what a call has changed behind its back.
  subroutine look(numbers)
    integer, volatile :: numbers(:)

    if (numbers(1) == -4711) print *, 'never'
  end subroutine
end program

! One line that gfortran makes several calls of: of an array as it is, and of one with gaps.
module layer
  use mpi
  implicit none
contains
  subroutine share(values, count)
    real(8) :: values(:)
    integer :: count, ierr
    call MPI_Bcast(values, count, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  end subroutine
end module

program slices
  use layer
  implicit none
  integer :: i, ierr, rank
  real(8) :: x(8)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  x = rank
  do i = 1, 100
    call share(x, 8)
    call share(x(1:8:2), 4)
  end do
  call MPI_Finalize(ierr)
end program

! Heat on a plate in blocks of columns: halo exchange and allreduce, with mpi_f08.
!
! A step replaces each point by the mean of its four neighbours (Jacobi). Each process first
! exchanges its outer columns with its neighbours, by sendrecv or (`neighbor`) by a neighbourhood
! all-to-all on a Cartesian communicator. Every 10 steps, an allreduce (in place) computes the
! largest change. Check: every point equals a serial run on the whole plate, bit by bit.
!
!     mpif90 -g -O2 -o halo halo.f90
!     mpiexec -n 4 ./halo                     columns, steps, exchange: 120 100 sendrecv
!     mpiexec -n 4 python -m mpiprof run -- ./halo 240 400 neighbor
module plate
  implicit none
  integer, parameter :: real64 = selected_real_kind(15), rows = 64, every = 10
contains
  ! Set the initial plate: cold, except for its upper edge, which is hot in the middle.
  subroutine heat_edge(field, first, columns)
    integer, intent(in) :: first, columns
    real(real64), intent(out) :: field(0:, first:)
    integer :: j
    field = 0
    do j = lbound(field, 2), ubound(field, 2)
      if (j >= 1 .and. j <= columns) field(0, j) = 100 * exp(-(6.0_real64 * j / columns - 3)**2)
    end do
  end subroutine

  ! Compute one step for all inner columns of `field`, and the largest change of a point.
  subroutine relax(field, change)
    real(real64), intent(inout) :: field(0:, 0:)
    real(real64), intent(out) :: change
    real(real64) :: old(0:ubound(field, 1), 0:ubound(field, 2))
    integer :: i, j
    old = field
    change = 0
    do j = 1, ubound(field, 2) - 1
      do i = 1, rows
        field(i, j) = (old(i - 1, j) + old(i + 1, j) + (old(i, j - 1) + old(i, j + 1))) / 4
        change = max(change, abs(field(i, j) - old(i, j)))
      end do
    end do
  end subroutine
end module

program halo
  use mpi_f08
  use plate
  implicit none
  integer, parameter :: length = rows + 2
  type(MPI_Comm) :: line
  integer :: rank, processes, left, right, columns, steps, step, first, last, wrong, total
  real(real64) :: change, serial_change
  real(real64), allocatable :: mine(:, :), whole(:, :)
  logical :: neighbor

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, processes)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [processes], [.false.], .false., line)
  call MPI_Comm_rank(line, rank)
  call MPI_Cart_shift(line, 0, 1, left, right)
  columns = whole_number(1, 120)
  steps = whole_number(2, 100)
  neighbor = word(3) == 'neighbor'
  if (columns < processes .or. steps < 0) then
    if (rank == 0) write (0, '(a, i0, a)') 'halo: needs at least a column for each of the ', &
      processes, ' processes, and 0 steps or more'
    call MPI_Finalize()
    stop 2, quiet=.true.
  end if

  first = rank * columns / processes + 1
  last = (rank + 1) * columns / processes
  allocate (mine(0:rows + 1, first - 1:last + 1), whole(0:rows + 1, 0:columns + 1))
  call heat_edge(mine, first - 1, columns)
  change = 0
  do step = 1, steps
    if (neighbor) then
      call exchange_with_both(mine)
    else
      call exchange(mine)
    end if
    call relax(mine, change)
    if (mod(step, every) == 0 .or. step == steps) &
      call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, line)
  end do

  call heat_edge(whole, 0, columns)
  serial_change = 0
  do step = 1, steps
    call relax(whole, serial_change)
  end do
  wrong = count(mine(:, first:last) /= whole(:, first:last))
  if (change /= serial_change) wrong = wrong + 1
  call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, line)
  if (rank == 0) then
    write (*, '(a, i0, a, i0, a, f0.9)') 'result: ', columns, ' columns, ', steps, &
      ' steps, last change ', change
    if (total == 0) write (*, '(a)') 'check ok'
    if (total /= 0) write (*, '(a, i0, a)') 'check failed: ', total, ' points are wrong'
  end if
  call MPI_Comm_free(line)
  call MPI_Finalize()
  if (total /= 0) stop 1, quiet=.true.

contains
  subroutine exchange(field)
    real(real64), intent(inout) :: field(0:, :) ! columns: halo, first, ..., last, halo
    integer :: n
    n = size(field, 2)
    call MPI_Sendrecv(field(:, n - 1), length, MPI_DOUBLE_PRECISION, right, 1, &
      field(:, 1), length, MPI_DOUBLE_PRECISION, left, 1, line, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(field(:, 2), length, MPI_DOUBLE_PRECISION, left, 2, &
      field(:, n), length, MPI_DOUBLE_PRECISION, right, 2, line, MPI_STATUS_IGNORE)
  end subroutine

  subroutine exchange_with_both(field)
    real(real64), intent(inout) :: field(0:, :)
    real(real64) :: outgoing(length, 2), incoming(length, 2)
    integer :: n
    n = size(field, 2)
    outgoing(:, 1) = field(:, 2)
    outgoing(:, 2) = field(:, n - 1)
    incoming(:, 1) = field(:, 1) ! stays in place if there is no neighbour
    incoming(:, 2) = field(:, n)
    call MPI_Neighbor_alltoall(outgoing, length, MPI_DOUBLE_PRECISION, &
      incoming, length, MPI_DOUBLE_PRECISION, line)
    field(:, 1) = incoming(:, 1)
    field(:, n) = incoming(:, 2)
  end subroutine

  function word(place)
    integer, intent(in) :: place
    character(len=32) :: word
    call get_command_argument(place, word)
  end function

  integer function whole_number(place, otherwise)
    integer, intent(in) :: place, otherwise
    character(len=32) :: text
    integer :: status
    whole_number = otherwise
    text = word(place)
    if (text == '') return
    read (text, *, iostat=status) whole_number
    if (status /= 0) whole_number = -1
  end function
end program

! Rank 1 is late, in a subroutine that spends its time in libm and in libgfortran.
program main
    use mpi
    implicit none
    integer :: rank, error, step
    double precision :: x, begin, now, total

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    total = 0
    do step = 1, 12
        call cpu_time(begin)
        now = begin
        do while (rank == 1 .and. now < begin + 0.1d0)
            call own_kernel(total)
            call cpu_time(now)
        end do
        x = 0
        call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    end do
    call MPI_Finalize(error)
    if (total < 0) stop 1
contains
    subroutine own_kernel(total)
        double precision, intent(inout) :: total
        double precision :: value, a(24, 24), b(24, 24)
        character(len=:), allocatable :: text
        integer :: i

        text = ''
        do i = 1, 1000
            value = i * 1d-3
            total = total + exp(value) + sin(value) + value ** 1.5d0
            if (mod(i, 50) == 0) then
                a = value
                b = cshift(matmul(transpose(a), a), i, 1)
                total = total + sum(pack(b, b > 0)) + maxval(spread(b(1, :), 2, 3))
                text = text // repeat('ab', i) // trim(text)
                total = total + scan(text, 'b')
                if (len(text) > 10000) text = ''
            end if
        end do
    end subroutine
end program

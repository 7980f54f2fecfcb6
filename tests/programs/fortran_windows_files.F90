! Calls every wrapped function of windows and files once from Fortran, on 2 ranks, and checks the
! data. BINDING: 0 mpif.h, 1 mpi, 2 mpi_f08. SHARED: shared file pointers too, with which Open MPI
! 4.1 now and then ends by SIGBUS. PORTS: ports too. Its argument is the name of a file.
#if BINDING == 2
#define COMM type(MPI_Comm)
#define GROUP type(MPI_Group)
#define REQUEST type(MPI_Request)
#define WINDOW type(MPI_Win)
#define HANDLE type(MPI_File)
#define HINTS type(MPI_Info)
#define STATUS(name) type(MPI_Status) :: name
#else
#define COMM integer
#define GROUP integer
#define REQUEST integer
#define WINDOW integer
#define HANDLE integer
#define HINTS integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#endif
program windows
#if BINDING == 2
  use mpi_f08
#elif BINDING == 1
  use mpi
#endif
  use iso_c_binding
  implicit none
#if BINDING == 0
  include 'mpif.h'
#endif
  integer :: rank, other, ierror
  character(1000) :: name

  call get_command_argument(1, name)
  call create(trim(name))
  call create(trim(name)//'-2')
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  other = 1 - rank
  call making()
  call moving()
  call alone()
  call together()
  call MPI_Finalize(ierror)

contains

  ! In Open MPI 4.1, a rank may open a file before rank 0 has created it. Then rank 0 hangs.
  subroutine create(path)
    character(*), intent(in) :: path
    integer :: unit

    open (newunit=unit, file=path)
    close (unit)
  end subroutine

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what

    if (.not. good) then
      print *, 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
    end if
  end subroutine

  subroutine making()
    WINDOW :: one, two, three
    HINTS :: info
    integer, target, asynchronous, save :: attached(4)
    integer, asynchronous, save :: room(1000)
    integer, pointer :: memory(:)
    character(MPI_MAX_PORT_NAME) :: port
#if BINDING == 2
    type(c_ptr) :: base, detached
#else
    integer(MPI_ADDRESS_KIND) :: base
    integer :: detached(2)
#endif
    integer :: length

    call MPI_Win_allocate(8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, one, ierror)
    call MPI_Win_allocate_shared(8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, two, &
                                 ierror)
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, three, ierror)
    call MPI_Win_attach(three, attached, 16_MPI_ADDRESS_KIND, ierror)
    call MPI_Win_detach(three, attached, ierror)
    call MPI_Buffer_attach(room, 4000, ierror)
    call MPI_Buffer_detach(detached, length, ierror)
    call expect(length == 4000, 'the length of the buffer')
    call MPI_Info_create(info, ierror)
    call MPI_Win_set_info(one, info, ierror)
    call MPI_Comm_set_info(MPI_COMM_WORLD, info, ierror)
    call MPI_Info_free(info, ierror)
    call MPI_Alloc_mem(8_MPI_ADDRESS_KIND, MPI_INFO_NULL, base, ierror)
    call c_f_pointer(transfer(base, c_null_ptr), memory, (/2/))
    memory = rank
    call expect(all(memory == rank), 'the memory')
    call MPI_Free_mem(memory, ierror)
#ifdef PORTS
    call MPI_Open_port(MPI_INFO_NULL, port, ierror)
    call expect(len_trim(port) > 0 .and. len_trim(port) < len(port), 'the port')
    call MPI_Close_port(port, ierror)
#endif
    call MPI_Win_fence(0, one, ierror)
    call MPI_Win_fence(0, one, ierror)
    call MPI_Win_free(three, ierror)
    call MPI_Win_free(two, ierror)
    call MPI_Win_free(one, ierror)
  end subroutine

  subroutine moving()
    integer, target, asynchronous, save :: shared(4)
    integer, asynchronous, save :: mine(4), got(4), back(4)
    integer(MPI_ADDRESS_KIND) :: zero
    logical :: flag
    WINDOW :: win
    GROUP :: world, peer
    REQUEST :: request
    STATUS(state)

    zero = 0
    shared = 0
    mine = rank + 1
    call MPI_Win_create(shared, 16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win, ierror)
    call MPI_Put(mine, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, win, ierror)
    call MPI_Win_flush(other, win, ierror)
    call MPI_Accumulate(mine, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, MPI_SUM, win, ierror)
    call MPI_Win_flush_local(other, win, ierror)
    call MPI_Win_unlock(other, win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_lock_all(0, win, ierror)
    call MPI_Win_sync(win, ierror)
    call MPI_Get(got, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, win, ierror)
    call MPI_Win_flush_all(win, ierror)
    call expect(all(got == 2 * mine), 'put, accumulate and get')
    call MPI_Get_accumulate(mine, 4, MPI_INTEGER, got, 4, MPI_INTEGER, other, zero, 4, &
                            MPI_INTEGER, MPI_SUM, win, ierror)
    call MPI_Win_flush_local_all(win, ierror)
    call MPI_Fetch_and_op(mine, got, MPI_INTEGER, other, zero, MPI_SUM, win, ierror)
    call MPI_Win_flush(other, win, ierror)
    call expect(got(1) == 3 * mine(1), 'get_accumulate, fetch_and_op')
    call MPI_Compare_and_swap(mine, mine, back, MPI_INTEGER, other, zero, win, ierror)
    call MPI_Win_flush(other, win, ierror)
    call expect(back(1) == 4 * mine(1), 'compare_and_swap')
    call MPI_Rput(mine, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, win, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_Win_flush(other, win, ierror)
    call MPI_Raccumulate(mine, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, MPI_SUM, win, &
                         request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_Win_flush(other, win, ierror)
    call MPI_Rget_accumulate(mine, 4, MPI_INTEGER, got, 4, MPI_INTEGER, other, zero, 4, &
                             MPI_INTEGER, MPI_SUM, win, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_Win_flush(other, win, ierror)
    call MPI_Rget(back, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, win, request, ierror)
    call MPI_Wait(request, state, ierror)
    call expect(all(got == 2 * mine) .and. all(back == 3 * mine), 'with requests')
    call MPI_Win_unlock_all(win, ierror)
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierror)
    call MPI_Group_incl(world, 1, [other], peer, ierror)
    call MPI_Win_post(peer, 0, win, ierror)
    call MPI_Win_start(peer, 0, win, ierror)
    call MPI_Put(mine, 4, MPI_INTEGER, other, zero, 4, MPI_INTEGER, win, ierror)
    call MPI_Win_complete(win, ierror)
    call MPI_Win_wait(win, ierror)
    call MPI_Win_post(peer, 0, win, ierror)
    call MPI_Win_start(peer, 0, win, ierror)
    call MPI_Win_complete(win, ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Win_test(win, flag, ierror)
    end do
    call expect(all(shared == other + 1), 'post and start')
    call MPI_Win_free(win, ierror)
  end subroutine

  subroutine alone()
    integer, asynchronous, save :: out(2), in(2)
    integer(MPI_OFFSET_KIND) :: at
    HANDLE :: fh
    HINTS :: info
    REQUEST :: request
    STATUS(state)

    at = 8 * rank
    out = [rank, 7]
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, &
                       ierror)
    call expect(ierror == MPI_SUCCESS, 'open')
    call MPI_Info_create(info, ierror)
    call MPI_File_set_info(fh, info, ierror)
    call MPI_File_set_atomicity(fh, .false., ierror)
    call MPI_File_set_size(fh, 16_MPI_OFFSET_KIND, ierror)
    call MPI_File_preallocate(fh, 16_MPI_OFFSET_KIND, ierror)
    call MPI_File_write_at(fh, at, out, 2, MPI_INTEGER, state, ierror)
    call MPI_File_read_at(fh, at, in, 2, MPI_INTEGER, state, ierror)
    call expect(all(in == out), 'read_at')
    call MPI_File_iwrite_at(fh, at, out, 2, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    in = -1
    call MPI_File_iread_at(fh, at, in, 2, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call expect(all(in == out), 'iread_at')
    call MPI_File_set_view(fh, at, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
    call MPI_File_write(fh, out, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iwrite(fh, out(2:), 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_sync(fh, ierror)
    call MPI_File_set_view(fh, at, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
    in = -1
    call MPI_File_read(fh, in, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iread(fh, in(2:), 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call expect(all(in == out), 'read and iread')
    call MPI_File_close(fh, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (rank == 0) call MPI_File_delete(name, MPI_INFO_NULL, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine together()
    integer, asynchronous, save :: out(1), in(1)
    integer(MPI_OFFSET_KIND) :: at
    HANDLE :: fh
    REQUEST :: request
    STATUS(state)

    at = rank
    out = 10 + rank
    call MPI_File_open(MPI_COMM_WORLD, trim(name)//'-2', MPI_MODE_CREATE + MPI_MODE_RDWR, &
                       MPI_INFO_NULL, fh, ierror)
    call view(fh, 12 * at)
    call MPI_File_write_all(fh, out, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iwrite_all(fh, out, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_write_all_begin(fh, out, 1, MPI_INTEGER, ierror)
    call MPI_File_write_all_end(fh, out, state, ierror)
    call view(fh, 12 * at)
    call MPI_File_read_all(fh, in, 1, MPI_INTEGER, state, ierror)
    call expect(in(1) == out(1), 'read_all')
    call MPI_File_iread_all(fh, in, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_read_all_begin(fh, in, 1, MPI_INTEGER, ierror)
    call MPI_File_read_all_end(fh, in, state, ierror)
    call view(fh, 0_MPI_OFFSET_KIND)
    call MPI_File_write_at_all(fh, at, out, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iwrite_at_all(fh, at, out, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_write_at_all_begin(fh, at, out, 1, MPI_INTEGER, ierror)
    call MPI_File_write_at_all_end(fh, out, state, ierror)
    call MPI_File_read_at_all(fh, at, in, 1, MPI_INTEGER, state, ierror)
    call expect(in(1) == out(1), 'read_at_all')
    call MPI_File_iread_at_all(fh, at, in, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_read_at_all_begin(fh, at, in, 1, MPI_INTEGER, ierror)
    call MPI_File_read_at_all_end(fh, in, state, ierror)
    call expect(in(1) == out(1), 'read_at_all_end')
#ifdef SHARED
    call MPI_File_seek_shared(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call MPI_File_write_ordered(fh, out, 1, MPI_INTEGER, state, ierror)
    call MPI_File_write_ordered_begin(fh, out, 1, MPI_INTEGER, ierror)
    call MPI_File_write_ordered_end(fh, out, state, ierror)
    call MPI_File_seek_shared(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call MPI_File_read_ordered(fh, in, 1, MPI_INTEGER, state, ierror)
    call expect(in(1) == out(1), 'read_ordered')
    call MPI_File_read_ordered_begin(fh, in, 1, MPI_INTEGER, ierror)
    call MPI_File_read_ordered_end(fh, in, state, ierror)
    call expect(in(1) == out(1), 'read_ordered_end')
    call MPI_File_seek_shared(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call MPI_File_write_shared(fh, out, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iwrite_shared(fh, out, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
    call MPI_File_seek_shared(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call MPI_File_read_shared(fh, in, 1, MPI_INTEGER, state, ierror)
    call MPI_File_iread_shared(fh, in, 1, MPI_INTEGER, request, ierror)
    call MPI_Wait(request, state, ierror)
#endif
    call MPI_File_close(fh, ierror)
  end subroutine

  subroutine view(fh, at)
    HANDLE, intent(in) :: fh
    integer(MPI_OFFSET_KIND), intent(in) :: at

    call MPI_File_set_view(fh, at, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
  end subroutine
end program

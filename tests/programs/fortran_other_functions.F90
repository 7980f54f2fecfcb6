! Calls every wrapped function that is no collective once from Fortran, on 2 ranks, and checks what
! comes back: statuses, indices from 1, MPI_BOTTOM. BINDING: 0 mpif.h, 1 mpi, 2 mpi_f08.
! INDICES: 0 where the library's own are wrong (MPICH 4.0).
#if BINDING == 2
#define COMM type(MPI_Comm)
#define HANDLER type(MPI_Errhandler)
#define OPERATION type(MPI_Op)
#define GROUP type(MPI_Group)
#define REQUEST type(MPI_Request)
#define TYPE_OF_DATA type(MPI_Datatype)
#define MESSAGE type(MPI_Message)
#define STATUS(name) type(MPI_Status) :: name
#define STATUSES(name, n) type(MPI_Status) :: name(n)
#define SOURCE_OF(name) name%MPI_SOURCE
#define TAG_OF(name) name%MPI_TAG
#define SOURCE_AT(name, i) name(i)%MPI_SOURCE
#define TAG_AT(name, i) name(i)%MPI_TAG
#else
#define COMM integer
#define HANDLER integer
#define OPERATION integer
#define GROUP integer
#define REQUEST integer
#define TYPE_OF_DATA integer
#define MESSAGE integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES(name, n) integer :: name(MPI_STATUS_SIZE, n)
#define SOURCE_OF(name) name(MPI_SOURCE)
#define TAG_OF(name) name(MPI_TAG)
#define SOURCE_AT(name, i) name(MPI_SOURCE, i)
#define TAG_AT(name, i) name(MPI_TAG, i)
#endif
program others
#if BINDING == 2
  use mpi_f08
#elif BINDING == 1
  use mpi
#endif
  implicit none
#if BINDING == 0
  include 'mpif.h'
#endif
  integer :: rank, other, provided, ierror, i, index, outcount, indices(4), got, number, length
  integer :: numbers(4), sums(4), buffer(1000)
  integer(MPI_ADDRESS_KIND) :: place
  logical :: flag, periods(1), keep(1)
  character(MPI_MAX_OBJECT_NAME) :: name
  COMM :: work, made, half, bridge, merged, parent
  HANDLER :: handler
  OPERATION :: operation
  GROUP :: everyone
  REQUEST :: one, many(4)
  TYPE_OF_DATA :: absolute
  MESSAGE :: matched
  integer :: asked
  common /asking/ asked
  external :: handle
  STATUS(state)
  STATUSES(states, 4)

#ifdef THREADS
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierror)
#else
  call MPI_Init(ierror)
#endif
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  other = 1 - rank
  call MPI_Comm_dup(MPI_COMM_WORLD, work, ierror)
  call MPI_Comm_set_name(work, 'work', ierror)
  call MPI_Comm_get_name(work, name, length, ierror)
  call expect(name(1:length) == 'work', 'the name')

  ! MPI_BOTTOM with an absolute address
  number = 0
  if (rank == 1) number = 4711
  call MPI_Get_address(number, place, ierror)
  call MPI_Type_create_hindexed(1, (/1/), (/place/), MPI_INTEGER, absolute, ierror)
  call MPI_Type_commit(absolute, ierror)
  call MPI_Bcast(MPI_BOTTOM, 1, absolute, 1, work, ierror)
  call look(number)
  call expect(number == 4711, 'MPI_BOTTOM')
  call MPI_Type_free(absolute, ierror)

  ! An error handler: asked, and of a call that has taken part in nothing
  asked = 0
  call MPI_Comm_create_errhandler(handle, handler, ierror)
  call MPI_Comm_set_errhandler(work, handler, ierror)
  call MPI_Bcast(number, 1, MPI_INTEGER, 1000, work, ierror)
  call expect(asked == 1, 'the error handler')
  call MPI_Comm_set_errhandler(work, MPI_ERRORS_ARE_FATAL, ierror)
  call MPI_Errhandler_free(handler, ierror)
  call MPI_Op_create(ignore, .true., operation, ierror)
  call MPI_Op_free(operation, ierror)

  call communicators()
  call completion()
  call point_to_point()
  call nonblocking_messages()
  call persistent_messages()
  call probed_messages()
  call cancelled_receive()

  call MPI_Pcontrol(0)
  call MPI_Barrier(work, ierror)
  call MPI_Pcontrol(1)
  call MPI_Barrier(work, ierror)
  call MPI_Pcontrol(2)
  call MPI_Comm_disconnect(work, ierror)
  call MPI_Finalize(ierror)

contains

  subroutine ignore(given, result, length, datatype) ! a reduction that no call uses
#if BINDING == 2
    use, intrinsic :: iso_c_binding, only: c_ptr
    type(c_ptr), value :: given, result
#else
    integer :: given(*), result(*)
#endif
    integer :: length
    TYPE_OF_DATA :: datatype
  end subroutine

  subroutine look(value) ! the compiler can't know that it didn't change
    integer, intent(inout) :: value
    if (value < 0) print *, value
  end subroutine

  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    print *, what, ' is wrong on rank', rank
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

  subroutine use_it(label)
    character(*), intent(in) :: label
    call MPI_Comm_set_name(made, label, ierror)
    call MPI_Barrier(made, ierror)
    call MPI_Comm_free(made, ierror)
  end subroutine

  subroutine communicators()
    call MPI_Comm_dup_with_info(work, MPI_INFO_NULL, made, ierror)
    call use_it('dup_with_info')
    call MPI_Comm_idup(work, made, one, ierror)
    call MPI_Wait(one, MPI_STATUS_IGNORE, ierror)
    call use_it('idup')
    call MPI_Comm_split(work, 0, -rank, made, ierror)
    call use_it('split')
    call MPI_Comm_split_type(work, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, made, ierror)
    call use_it('split_type')
    call MPI_Comm_group(work, everyone, ierror)
    call MPI_Comm_create(work, everyone, made, ierror)
    call use_it('create')
    call MPI_Comm_create_group(work, everyone, 3, made, ierror)
    call use_it('create_group')
    call MPI_Group_free(everyone, ierror)
    periods = .true.
    keep = .true.
    call MPI_Cart_create(work, 1, (/2/), periods, .false., bridge, ierror)
    call MPI_Cart_sub(bridge, keep, made, ierror)
    call use_it('cart_sub')
    made = bridge
    call use_it('cart_create')
    call MPI_Graph_create(work, 2, (/1, 2/), (/1, 0/), .false., made, ierror)
    call use_it('graph_create')
    call MPI_Dist_graph_create(work, 1, (/rank/), (/1/), (/other/), (/1/), MPI_INFO_NULL, &
        .false., made, ierror)
    call use_it('dist_graph_create')
    call MPI_Dist_graph_create_adjacent(work, 1, (/other/), (/1/), 1, (/other/), (/1/), &
        MPI_INFO_NULL, .false., made, ierror)
    call use_it('dist_graph_create_adjacent')
    call MPI_Comm_split(work, rank, 0, half, ierror)
    call MPI_Intercomm_create(half, 0, work, other, 9, bridge, ierror)
    call MPI_Intercomm_merge(bridge, rank == 1, merged, ierror)
    made = merged
    call use_it('intercomm_merge')
    made = bridge
    call use_it('intercomm_create')
    call MPI_Comm_free(half, ierror)
    call MPI_Comm_get_parent(parent, ierror)
    call expect(parent == MPI_COMM_NULL, 'the parent')
  end subroutine

  subroutine begin(count)
    integer, intent(in) :: count
    numbers = (/10, 20, 30, 40/)
    do i = 1, count
      call MPI_Iallreduce(numbers(i), sums(i), 1, MPI_INTEGER, MPI_SUM, work, many(i), ierror)
    end do
  end subroutine

  subroutine ended(count, what)
    integer, intent(in) :: count
    character(*), intent(in) :: what
    call expect(all(sums(1:count) == 2 * numbers(1:count)), what)
    sums = 0
  end subroutine

  subroutine completion()
    call begin(1)
    call MPI_Wait(many(1), state, ierror)
    call ended(1, 'Wait')
    call begin(3)
    call MPI_Waitall(3, many, states, ierror)
    call ended(3, 'Waitall')
    call begin(2)
    do i = 1, 2
      call MPI_Waitany(2, many, index, state, ierror)
      if (INDICES == 1) call expect(index == 1 .or. index == 2, 'the index')
    end do
    call MPI_Waitany(2, many, index, MPI_STATUS_IGNORE, ierror)
    if (INDICES == 1) call expect(index == MPI_UNDEFINED, 'no index')
    call ended(2, 'Waitany')
    call begin(3)
    outcount = 0
    do while (outcount >= 0) ! until MPI_UNDEFINED
      call MPI_Waitsome(3, many, outcount, indices, MPI_STATUSES_IGNORE, ierror)
    end do
    call ended(3, 'Waitsome')
    call begin(1)
    flag = .false.
    do while (.not. flag)
      call MPI_Test(many(1), flag, MPI_STATUS_IGNORE, ierror)
    end do
    call ended(1, 'Test')
    call begin(3)
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(3, many, flag, MPI_STATUSES_IGNORE, ierror)
    end do
    call ended(3, 'Testall')
    call begin(2)
    index = 1
    flag = .false.
    do while (.not. flag .or. index >= 0) ! until MPI_UNDEFINED
      call MPI_Testany(2, many, index, flag, MPI_STATUS_IGNORE, ierror)
    end do
    call ended(2, 'Testany')
    call begin(3)
    outcount = 0
    do while (outcount >= 0) ! until MPI_UNDEFINED
      call MPI_Testsome(3, many, outcount, indices, MPI_STATUSES_IGNORE, ierror)
    end do
    call ended(3, 'Testsome')
    call begin(1)
    flag = .false.
    do i = 1, 1000
      call MPI_Request_get_status(many(1), flag, MPI_STATUS_IGNORE, ierror)
    end do
    call MPI_Wait(many(1), MPI_STATUS_IGNORE, ierror)
    call ended(1, 'Request_get_status')
  end subroutine

  subroutine point_to_point()
    call MPI_Recv_init(got, 1, MPI_INTEGER, other, 1, work, many(1), ierror)
    call MPI_Send_init(rank, 1, MPI_INTEGER, other, 1, work, many(2), ierror)
    call MPI_Startall(2, many, ierror)
    call MPI_Waitall(2, many, states, ierror)
    call expect(SOURCE_AT(states, 1) == other, 'the first of the statuses')
    call MPI_Start(many(1), ierror)
    call MPI_Start(many(2), ierror)
    call MPI_Waitall(2, many, MPI_STATUSES_IGNORE, ierror)
    call MPI_Request_free(many(1), ierror)
    call MPI_Request_free(many(2), ierror)
    call MPI_Buffer_attach(buffer, 4000, ierror)
    call MPI_Irecv(got, 1, MPI_INTEGER, other, 7, work, one, ierror)
    call MPI_Barrier(work, ierror) ! posted: a ready send may come
    call MPI_Rsend(rank, 1, MPI_INTEGER, other, 7, work, ierror)
    call MPI_Wait(one, state, ierror)
    call expect(SOURCE_OF(state) == other .and. TAG_OF(state) == 7, 'the status')
    call MPI_Bsend(rank, 1, MPI_INTEGER, other, 2, work, ierror)
    call MPI_Probe(other, 2, work, state, ierror)
    call expect(SOURCE_OF(state) == other, 'the probe')
    call MPI_Recv(got, 1, MPI_INTEGER, other, 2, work, state, ierror)
    call expect(got == other, 'the message')
    if (rank == 0) then
      call MPI_Send(rank, 1, MPI_INTEGER, 1, 3, work, ierror)
      call MPI_Ssend(rank, 1, MPI_INTEGER, 1, 4, work, ierror)
    else
      call MPI_Mprobe(0, 3, work, matched, state, ierror)
      call MPI_Mrecv(got, 1, MPI_INTEGER, matched, state, ierror)
      call MPI_Recv(got, 1, MPI_INTEGER, 0, 4, work, MPI_STATUS_IGNORE, ierror)
    end if
    call MPI_Sendrecv(rank, 1, MPI_INTEGER, other, 5, got, 1, MPI_INTEGER, other, 5, work, state, &
        ierror)
    call expect(got == other, 'Sendrecv')
    got = rank
    call MPI_Sendrecv_replace(got, 1, MPI_INTEGER, other, 6, other, 6, work, state, ierror)
    call expect(got == other, 'Sendrecv_replace')
  end subroutine

  ! Tags differ, so each received number names the call that sent it.
  subroutine nonblocking_messages()
    integer, asynchronous, save :: out(4), in(4)
    REQUEST :: sends(4)

    out = 10 * rank + (/1, 2, 3, 4/)
    do i = 1, 4
      call MPI_Irecv(in(i), 1, MPI_INTEGER, other, 10 + i, work, many(i), ierror)
    end do
    call MPI_Barrier(MPI_COMM_WORLD, ierror) ! posted: a ready send may come
    call MPI_Irsend(out(1), 1, MPI_INTEGER, other, 11, work, sends(1), ierror)
    call MPI_Isend(out(2), 1, MPI_INTEGER, other, 12, work, sends(2), ierror)
    call MPI_Ibsend(out(3), 1, MPI_INTEGER, other, 13, work, sends(3), ierror)
    call MPI_Issend(out(4), 1, MPI_INTEGER, other, 14, work, sends(4), ierror)
    call MPI_Waitall(4, many, states, ierror)
    call MPI_Waitall(4, sends, MPI_STATUSES_IGNORE, ierror)
    call expect(all(in == 10 * other + (/1, 2, 3, 4/)), 'nonblocking messages')
    do i = 1, 4
      call expect(SOURCE_AT(states, i) == other .and. TAG_AT(states, i) == 10 + i, 'a status')
    end do
  end subroutine

  subroutine persistent_messages()
    integer, asynchronous, save :: out(3), in(3)
    REQUEST :: sends(3)

    out = 10 * rank + (/5, 6, 7/)
    do i = 1, 3
      call MPI_Recv_init(in(i), 1, MPI_INTEGER, other, 20 + i, work, many(i), ierror)
    end do
    call MPI_Bsend_init(out(1), 1, MPI_INTEGER, other, 21, work, sends(1), ierror)
    call MPI_Ssend_init(out(2), 1, MPI_INTEGER, other, 22, work, sends(2), ierror)
    call MPI_Rsend_init(out(3), 1, MPI_INTEGER, other, 23, work, sends(3), ierror)
    do got = 1, 2
      in = -1
      call MPI_Startall(3, many, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror) ! posted: a ready send may come
      call MPI_Startall(3, sends, ierror)
      call MPI_Waitall(3, many, states, ierror)
      call MPI_Waitall(3, sends, MPI_STATUSES_IGNORE, ierror)
      call expect(all(in == 10 * other + (/5, 6, 7/)), 'persistent messages')
      call expect(TAG_AT(states, 3) == 23, 'the tag of a persistent message')
    end do
    do i = 1, 3
      call MPI_Request_free(many(i), ierror)
      call MPI_Request_free(sends(i), ierror)
    end do
  end subroutine

  subroutine probed_messages()
    call MPI_Isend(rank, 1, MPI_INTEGER, other, 31, work, many(1), ierror)
    call MPI_Isend(rank, 1, MPI_INTEGER, other, 32, work, many(2), ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Iprobe(other, 31, work, flag, state, ierror)
    end do
    call expect(SOURCE_OF(state) == other .and. TAG_OF(state) == 31, 'Iprobe')
    call MPI_Recv(got, 1, MPI_INTEGER, other, 31, work, MPI_STATUS_IGNORE, ierror)
    call expect(got == other, 'the message of Iprobe')
    flag = .false.
    do while (.not. flag)
      call MPI_Improbe(other, 32, work, flag, matched, state, ierror)
    end do
    call expect(SOURCE_OF(state) == other .and. TAG_OF(state) == 32, 'Improbe')
    got = -1
    call MPI_Imrecv(got, 1, MPI_INTEGER, matched, one, ierror)
    call MPI_Wait(one, state, ierror)
    call look(got)
    call expect(got == other .and. TAG_OF(state) == 32, 'Imrecv')
    call expect(matched == MPI_MESSAGE_NULL, 'the message after Imrecv')
    call MPI_Waitall(2, many, MPI_STATUSES_IGNORE, ierror)
  end subroutine

  subroutine cancelled_receive()
    got = 4711
    call MPI_Irecv(got, 1, MPI_INTEGER, other, 41, work, one, ierror)
    call MPI_Cancel(one, ierror)
    call MPI_Wait(one, state, ierror)
    call MPI_Test_cancelled(state, flag, ierror)
    call look(got)
    call expect(flag .and. got == 4711, 'Cancel')
  end subroutine
end program

subroutine handle(comm, code)
#if BINDING == 2
  use mpi_f08
#endif
  implicit none
  COMM :: comm
  integer :: code, asked
  common /asking/ asked

  if (code /= 0) asked = asked + 1
end subroutine

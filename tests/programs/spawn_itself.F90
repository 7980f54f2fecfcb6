! Spawns itself, once by each routine: strings and arrays of strings pass through the wrappers.
program spawning
#ifdef F08
  use mpi_f08
#endif
  implicit none
#ifdef F08
#define COMM type(MPI_Comm)
#define INFO type(MPI_Info)
#else
  include 'mpif.h'
#define COMM integer
#define INFO integer
#endif
  COMM :: parent, child
  INFO :: infos(1)
  integer :: number, ierror, codes(1)
  character(500) :: own, commands(1)
  character(20) :: words(2), word, more(1, 2)

  call MPI_Init(ierror)
  call MPI_Comm_get_parent(parent, ierror)
  if (parent /= MPI_COMM_NULL) then
    call get_command_argument(1, word)
    call MPI_Bcast(number, 1, MPI_INTEGER, 0, parent, ierror)
    if (number == 4711 .and. word == 'a word') print '(A)', 'child is right'
    call MPI_Comm_disconnect(parent, ierror)
  else
    call get_command_argument(0, own)
    words = [character(20) :: 'a word', ' ']
    call MPI_Comm_spawn(own, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, child, codes, ierror)
    call greet()
    commands(1) = own
    more(1, :) = words
    infos(1) = MPI_INFO_NULL
    call MPI_Comm_spawn_multiple(1, commands, more, (/1/), infos, 0, MPI_COMM_SELF, child, codes, &
        ierror)
    call greet()
  end if
  call MPI_Finalize(ierror)

contains

  subroutine greet()
    number = 4711
    call MPI_Bcast(number, 1, MPI_INTEGER, MPI_ROOT, child, ierror)
    call MPI_Comm_disconnect(child, ierror)
  end subroutine
end program

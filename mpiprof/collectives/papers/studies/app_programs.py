"""Programs of the study `apps`: samples that stand for those of Faraj et al. (2008, Table 3).

A program that is installed on this machine runs in place of its stand-in.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import AUTO, ROBUST
from mpiprof.launch import library
from mpiprof.launch.library import Mpi

LAMMPS = "lmp"  # Debian's name of the program
POTENTIAL = "Cu_u3.eam"  # copper with embedded atoms
POTENTIALS = "/usr/share/lammps/potentials"  # Debian's folder; the variable has precedence
FOLDER_VARIABLE = "LAMMPS_POTENTIALS"


def find_lammps(samples: Path, mpi: Mpi) -> tuple[list[str], str]:
    """Return the words that run LAMMPS with this MPI, [] if it cannot run, and the reason."""
    program = shutil.which(LAMMPS)
    if program is None:
        return [], "LAMMPS is not installed"
    potential = Path(os.environ.get(FOLDER_VARIABLE, POTENTIALS), POTENTIAL)
    if not potential.is_file():
        return [], f"the installed LAMMPS has no {potential}"
    try:
        program_mpi = library.mpi_of_file(Path(program), os.environ)
    except MpiprofError as error:
        return [], str(error)
    libraries = [m and m.library and m.library.resolve() for m in (program_mpi, mpi)]
    if libraries[0] is None or libraries[0] != libraries[1]:
        return [], f"{program} has another MPI library than these ranks"
    words = [program, "-log", "none", "-in", str(samples / "copper.in")]
    return [*words, "-var", "potential", str(potential)], f"{program} is installed"


@dataclass(frozen=True)
class StudyProgram:
    """A sample: its words, the words of a quick run, and seconds on 16 nodes at 100 Mbit/s.

    find: returns the words of the program that the sample stands for, [] if it cannot run, and the
    reason. options: words after these, in a full and in a quick run.
    """

    words: str
    quick: str
    seconds: int
    asked: float = 0.0  # required ratio of native's to auto's time, in these routines together
    routines: tuple[str, ...] = ()
    followed: str = ""  # routine whose instances Figure 3 shows
    robust: bool = False  # whether the paper's routine runs too, as in Table 12
    find: Callable[[Path, Mpi], tuple[list[str], str]] | None = None
    options: tuple[str, str] = ("", "")

    def list_modes(self, *, quick: bool) -> tuple[str, ...]:
        """Return the runs in order; a quick run outside Table 12 has one."""
        if quick and not self.robust:
            return ("native",)
        return ("native", AUTO, *[ROBUST] * self.robust, "native")


# In quick runs, messages have about the sizes of Table 3, and in the programs of Table 12 those of
# the paper's largest machine. With a few bytes, only the first broadcasts would be large messages.
APPS = {
    "ft": StudyProgram(
        "ft.py --grid 64 --steps 150", "ft.py --grid 32 --steps 150",
        15, followed="alltoall", robust=True,
    ),
    "hydro": StudyProgram("hydro.py --cells 384", "hydro.py --cells 192", 20, robust=True),
    "fft2d": StudyProgram(
        "fft2d.py --order 1024 --repetitions 75", "fft2d.py --order 256 --repetitions 75",
        30, robust=True,
    ),
    "transpose": StudyProgram(
        "transpose.py --order 1024 --repetitions 300", "transpose.py --order 256 --repetitions 150",
        25, robust=True,
    ),
    "coupled": StudyProgram(  # 1 MB per group, between its groups
        "coupled.py --cells 131072 --ratio 1 --steps 150", "coupled.py --cells 300",
        110, asked=3.0, routines=("allgather", "allgatherv"),
    ),
    "nbody": StudyProgram(
        "nbody.py --bodies 800 --steps 300", "nbody.py --bodies 1000", 15, followed="allgather"
    ),
    "md": StudyProgram("md.py --steps 150", "md.py --cells 5", 12),  # as NTUBE 1
    "ntube2": StudyProgram(
        "md.py --variant allreduce --steps 150", "md.py --variant allreduce --cells 4", 15
    ),
    "is": StudyProgram(  # the paper's 33 KB per message, and 32 KB per message on 8 ranks
        "integer_sort.py --keys 1048576 --repetitions 150", "integer_sort.py --keys 262144", 25
    ),
    # As LAMMPS (the paper's allreduce has 42 KB, here 49 KB), and as ParaDyn.
    "lammps": StudyProgram(
        "metal.py --cells 8 --steps 50", "metal.py --steps 10",
        45, find=find_lammps, options=("-var steps 50", "-var cells 4 -var steps 10"),
    ),
    "paradyn": StudyProgram(
        "metal.py --variant allgatherv --cells 6 --steps 150",
        "metal.py --variant allgatherv --cells 7 --steps 10", 30,
    ),
}  # fmt: skip


def find_words(app: StudyProgram, samples: Path, mpi: Mpi, *, quick: bool) -> tuple[list[str], str]:
    """Return the words of a program or its stand-in, and the reason; "" if no program is sought."""
    words = (app.quick if quick else app.words).split()
    stand_in = [str(samples / words[0]), *words[1:]]
    if app.find is None:
        return stand_in, ""
    command, why = app.find(samples, mpi)
    if not command:
        return stand_in, f"its stand-in {words[0]} runs, because {why}"
    return [*command, *app.options[quick].split()], why

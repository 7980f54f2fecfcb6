"""Programs of the study `apps`: samples that stand for those of Faraj et al. (2008, Table 3).

A program that is installed on this machine runs in place of its stand-in.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
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

    is_sought: whether LAMMPS runs instead if it is installed. options: its words, in a full and in
    a quick run.
    """

    words: str
    quick: str
    seconds: int
    asked: float = 0.0  # required ratio of native's to auto's time, in these routines together
    routines: Sequence[str] = ()
    followed: str = ""  # routine whose instances Figure 3 shows
    robust: bool = False  # whether the paper's routine runs too, as in Table 12
    is_sought: bool = False
    options: Sequence[str] = ("", "")

    def list_modes(self, *, quick: bool) -> tuple[str, ...]:
        """Return the runs in order; a quick run outside Table 12 has one."""
        if quick and not self.robust:
            return ("native",)
        return ("native", AUTO, *[ROBUST] * self.robust, "native")


def read_programs() -> dict[str, StudyProgram]:
    """Return the programs by name.

    In quick runs, messages have about the sizes of Table 3, and in the programs of Table 12 those
    of the paper's largest machine. With a few bytes, only the first broadcasts would be large.
    """
    entries = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    names = [field.name for field in fields(StudyProgram)]
    return {n: StudyProgram(**{k: e[k] for k in names if k in e}) for n, e in entries.items()}


APPS = read_programs()


def find_words(app: StudyProgram, samples: Path, mpi: Mpi, *, quick: bool) -> tuple[list[str], str]:
    """Return the words of a program or its stand-in, and the reason; "" if no program is sought."""
    words = (app.quick if quick else app.words).split()
    stand_in = [str(samples / words[0]), *words[1:]]
    if not app.is_sought:
        return stand_in, ""
    command, why = find_lammps(samples, mpi)
    if not command:
        return stand_in, f"its stand-in {words[0]} runs, because {why}"
    return [*command, *app.options[quick].split()], why

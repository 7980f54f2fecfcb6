"""C++ functions in sentences have their name only, and --site accepts the whole signature."""

from __future__ import annotations

import pytest

from mpiprof.trace.function_names import shorten_function
from mpiprof.trace.sites import format_site, matches_pattern

SIGNATURE = (
    "ComputeDotProduct_ref(int, Vector_STRUCT const&, Vector_STRUCT const&, double&, double&)"
)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (SIGNATURE, "ComputeDotProduct_ref"),
        (f"{SIGNATURE}+0x1f", "ComputeDotProduct_ref+0x1f"),
        ("LAMMPS_NS::Comm::forward(LAMMPS_NS::Fix*, int)", "LAMMPS_NS::Comm::forward"),
        ("void sum<double, std::vector<int> >(double (*)(int), int)", "sum"),
        ("std::map<int, std::less<int> >::at(int const&) const", "std::map::at"),
        ("(anonymous namespace)::swap(int)", "{anonymous}::swap"),
        ("Grid::operator()(int, int) const", "Grid::operator()"),
        ("bool operator< <int>(A<int> const&, A<int> const&)", "operator<"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
        ("solve(double) [clone ._omp_fn.0]", "solve"),
        *((name, name) for name in ("main", "<module>", "<lambda>", "f.<locals>.g", "0x12", "")),
    ],
)
def test_the_name_of_a_function(function: str, name: str) -> None:
    assert shorten_function(function) == name


def test_sentences_are_short_and_patterns_find_both() -> None:
    site = {"file": "/src/dot.cpp", "line": 57, "function": SIGNATURE}
    assert format_site(site) == "dot.cpp:57 ComputeDotProduct_ref"
    for pattern in ("dot.cpp:57 ComputeDotProduct_ref", SIGNATURE, "Vector_STRUCT"):
        assert matches_pattern("allreduce", [site], pattern)

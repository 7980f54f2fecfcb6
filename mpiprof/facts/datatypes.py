"""Predefined datatypes and reductions: their handles in each library, and their elements.

core/generator/wrappers.py generates the C core's table from this module. So the recorder recognises
a predefined handle by its value, and never passes a possibly garbage argument to the library. The
diagnosis reads here which datatypes may be mixed. This module imports only the standard library,
because it is used when the core is built.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Datatype:
    """One predefined datatype.

    kind: class of its elements: integer, real, complex, pair, or raw, which may be mixed with all.
    size: bytes.
    default: Fortran's default kinds; compiler options change their size.
    mpich, abi: value of its handle.
    openmpi: its symbol without `ompi_mpi_`.
    """

    kind: str
    size: int
    mpich: int
    abi: int
    openmpi: str
    default: bool = False


@dataclass(frozen=True)
class Reduction:
    """One predefined reduction: the values of its handle, and its symbol without `ompi_mpi_`."""

    mpich: int
    abi: int
    openmpi: str


DATATYPES: dict[str, Datatype] = {
    "MPI_CHAR": Datatype("integer", 1, 0x4C000101, 0x243, "char"),
    "MPI_SIGNED_CHAR": Datatype("integer", 1, 0x4C000118, 0x244, "signed_char"),
    "MPI_UNSIGNED_CHAR": Datatype("integer", 1, 0x4C000102, 0x245, "unsigned_char"),
    "MPI_SHORT": Datatype("integer", 2, 0x4C000203, 0x208, "short"),
    "MPI_UNSIGNED_SHORT": Datatype("integer", 2, 0x4C000204, 0x20C, "unsigned_short"),
    "MPI_INT": Datatype("integer", 4, 0x4C000405, 0x209, "int"),
    "MPI_UNSIGNED": Datatype("integer", 4, 0x4C000406, 0x20D, "unsigned"),
    "MPI_LONG": Datatype("integer", 8, 0x4C000807, 0x20A, "long"),
    "MPI_UNSIGNED_LONG": Datatype("integer", 8, 0x4C000808, 0x20E, "unsigned_long"),
    "MPI_LONG_LONG": Datatype("integer", 8, 0x4C000809, 0x20B, "long_long_int"),
    "MPI_UNSIGNED_LONG_LONG": Datatype("integer", 8, 0x4C000819, 0x20F, "unsigned_long_long"),
    "MPI_WCHAR": Datatype("integer", 4, 0x4C00040E, 0x23C, "wchar"),
    "MPI_INT8_T": Datatype("integer", 1, 0x4C000137, 0x240, "int8_t"),
    "MPI_INT16_T": Datatype("integer", 2, 0x4C000238, 0x248, "int16_t"),
    "MPI_INT32_T": Datatype("integer", 4, 0x4C000439, 0x250, "int32_t"),
    "MPI_INT64_T": Datatype("integer", 8, 0x4C00083A, 0x258, "int64_t"),
    "MPI_UINT8_T": Datatype("integer", 1, 0x4C00013B, 0x241, "uint8_t"),
    "MPI_UINT16_T": Datatype("integer", 2, 0x4C00023C, 0x249, "uint16_t"),
    "MPI_UINT32_T": Datatype("integer", 4, 0x4C00043D, 0x251, "uint32_t"),
    "MPI_UINT64_T": Datatype("integer", 8, 0x4C00083E, 0x259, "uint64_t"),
    "MPI_AINT": Datatype("integer", 8, 0x4C000843, 0x201, "aint"),
    "MPI_OFFSET": Datatype("integer", 8, 0x4C000844, 0x203, "offset"),
    "MPI_COUNT": Datatype("integer", 8, 0x4C000845, 0x202, "count"),
    "MPI_C_BOOL": Datatype("integer", 1, 0x4C00013F, 0x238, "c_bool"),
    "MPI_CXX_BOOL": Datatype("integer", 1, 0x4C000133, 0x239, "cxx_bool"),
    "MPI_CHARACTER": Datatype("integer", 1, 0x4C00011A, 0x21E, "character", default=True),
    "MPI_INTEGER": Datatype("integer", 4, 0x4C00041B, 0x219, "integer", default=True),
    "MPI_LOGICAL": Datatype("integer", 4, 0x4C00041D, 0x218, "logical", default=True),
    "MPI_BYTE": Datatype("raw", 1, 0x4C00010D, 0x247, "byte"),
    "MPI_PACKED": Datatype("raw", 1, 0x4C00010F, 0x207, "packed"),
    "MPI_FLOAT": Datatype("real", 4, 0x4C00040A, 0x210, "float"),
    "MPI_DOUBLE": Datatype("real", 8, 0x4C00080B, 0x214, "double"),
    "MPI_LONG_DOUBLE": Datatype("real", 16, 0x4C00100C, 0x220, "long_double"),
    "MPI_REAL": Datatype("real", 4, 0x4C00041C, 0x21A, "real", default=True),
    "MPI_DOUBLE_PRECISION": Datatype("real", 8, 0x4C00081F, 0x21C, "dblprec", default=True),
    "MPI_C_FLOAT_COMPLEX": Datatype("complex", 8, 0x4C000840, 0x212, "c_float_complex"),
    "MPI_C_DOUBLE_COMPLEX": Datatype("complex", 16, 0x4C001041, 0x216, "c_double_complex"),
    "MPI_C_LONG_DOUBLE_COMPLEX": Datatype(
        "complex", 32, 0x4C002042, 0x224, "c_long_double_complex"
    ),
    "MPI_CXX_FLOAT_COMPLEX": Datatype("complex", 8, 0x4C000834, 0x213, "cxx_cplex"),
    "MPI_CXX_DOUBLE_COMPLEX": Datatype("complex", 16, 0x4C001035, 0x217, "cxx_dblcplex"),
    "MPI_CXX_LONG_DOUBLE_COMPLEX": Datatype("complex", 32, 0x4C002036, 0x225, "cxx_ldblcplex"),
    "MPI_COMPLEX": Datatype("complex", 8, 0x4C00081E, 0x21B, "cplex", default=True),
    "MPI_DOUBLE_COMPLEX": Datatype("complex", 16, 0x4C001022, 0x21D, "dblcplex", default=True),
    "MPI_FLOAT_INT": Datatype("pair", 8, 0x8C000000, 0x228, "float_int"),
    "MPI_DOUBLE_INT": Datatype("pair", 12, 0x8C000001, 0x229, "double_int"),
    "MPI_LONG_INT": Datatype("pair", 12, 0x8C000002, 0x22A, "long_int"),
    "MPI_SHORT_INT": Datatype("pair", 6, 0x8C000003, 0x22C, "short_int"),
    "MPI_2INT": Datatype("pair", 8, 0x4C000816, 0x22B, "2int"),
    "MPI_LONG_DOUBLE_INT": Datatype("pair", 20, 0x8C000004, 0x22D, "longdbl_int"),
    "MPI_2INTEGER": Datatype("pair", 8, 0x4C000820, 0x232, "2integer", default=True),
    "MPI_2REAL": Datatype("pair", 8, 0x4C000821, 0x230, "2real", default=True),
    "MPI_2DOUBLE_PRECISION": Datatype("pair", 16, 0x4C001023, 0x231, "2dblprec", default=True),
}

REDUCTIONS: dict[str, Reduction] = {
    "MPI_MAX": Reduction(0x58000001, 0x23, "op_max"),
    "MPI_MIN": Reduction(0x58000002, 0x22, "op_min"),
    "MPI_SUM": Reduction(0x58000003, 0x21, "op_sum"),
    "MPI_PROD": Reduction(0x58000004, 0x24, "op_prod"),
    "MPI_LAND": Reduction(0x58000005, 0x30, "op_land"),
    "MPI_BAND": Reduction(0x58000006, 0x28, "op_band"),
    "MPI_LOR": Reduction(0x58000007, 0x31, "op_lor"),
    "MPI_BOR": Reduction(0x58000008, 0x29, "op_bor"),
    "MPI_LXOR": Reduction(0x58000009, 0x32, "op_lxor"),
    "MPI_BXOR": Reduction(0x5800000A, 0x2A, "op_bxor"),
    "MPI_MAXLOC": Reduction(0x5800000C, 0x39, "op_maxloc"),
    "MPI_MINLOC": Reduction(0x5800000B, 0x38, "op_minloc"),
    "MPI_REPLACE": Reduction(0x5800000D, 0x3C, "op_replace"),
    "MPI_NO_OP": Reduction(0x5800000E, 0x3D, "op_no_op"),
}


def may_agree(first: str, second: str) -> bool:
    """Return True if data of one predefined datatype may be received as the other.

    This is more than the standard allows. Working programs mix signed and unsigned types, C and
    Fortran types, characters and bytes. An unknown name may be mixed with every other one.
    """
    a, b = DATATYPES.get(first), DATATYPES.get(second)
    if first == second or a is None or b is None or "raw" in (a.kind, b.kind):
        return True
    return a.kind == b.kind and (a.size == b.size or a.default != b.default)

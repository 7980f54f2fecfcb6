"""The syntax of --switch, and the messages on mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.jobs import run
from support.mpis import Mpi

from mpiprof.collectives.tune import plan, site_offsets
from mpiprof.collectives.tune.rules import Rule
from mpiprof.errors import UsageError
from unit.test_imports import modules_after


def written(folder: Path, data: object) -> Path:
    """Write a plan file."""
    path = folder / "plan.json"
    path.write_text(json.dumps(data))
    return path


def complaint(specification: str) -> str:
    """Return the message on a wrong specification."""
    with pytest.raises(UsageError) as caught:
        plan.read(specification)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_operations_and_their_parameters() -> None:
    found = plan.read("allgatherv=pipelined_ring:block_size=64K:order=both,alltoall=ring")
    assert found.rules == (
        Rule(
            "pipelined_ring", "allgatherv", parameters=(("block_size", "65536"), ("order", "both"))
        ),
        Rule("ring", "alltoall"),
    )
    assert found.format_for_recorder() == (
        "allgatherv pipelined_ring:block_size=65536:order=both 0 -1 * * *;alltoall ring 0 -1 * * *;"
    )


def test_call_sites() -> None:
    found = plan.read("md.py:88=ring,./solver/my code.py:7=native")
    assert [(r.site, r.operation) for r in found.rules] == [
        ("md.py:88", None),
        ("solver/my code.py:7", None),
    ]
    assert "solver/my%20code.py:7" in found.format_for_recorder()


def test_random_and_native() -> None:
    assert plan.read("random:12").format_for_recorder() == "random 12"
    assert plan.read("robust") == plan.Plan(robust=True)
    assert plan.read("robust").format_for_recorder() == "robust"
    assert plan.make_absolute("robust") == "robust"
    assert plan.read("bcast=native").rules == (Rule("native", "bcast"),)


def test_names_for_inter_communicators_only() -> None:
    assert plan.read("allgather=kang").rules[0].algorithm == "kang"


@pytest.mark.parametrize(
    ("specification", "wrong"),
    [
        ("alltoal=ring", "unknown operation 'alltoal'; the nearest: alltoall, alltoallv"),
        ("alltoall=rign", "no algorithm 'rign' for alltoall; did you mean ring?"),
        ("barrier=xyz", "no algorithm 'xyz' for barrier; known: "),
        (
            "iallreduce=ring",
            "the algorithm of iallreduce cannot be selected, only that of the blocking allreduce",
        ),
        (
            "bcast_init=chain",
            "the algorithm of bcast_init cannot be selected, only that of the blocking bcast",
        ),
        ("md.py:0=ring", "'md.py:0' is not a call site, a file and a line such as app.py:88"),
        ("md.py:x=ring", "'md.py:x' is not a call site"),
        ("md.py:8=rang", "no algorithm 'rang'; the nearest: ring"),
        ("alltoall=ring:block_size=4", "ring has no parameters, so no 'block_size'"),
        ("bcast=chain:blok_size=4", "chain has no 'blok_size'; did you mean block_size?"),
        ("bcast=chain:block_size=0", "block_size=0: a number of bytes from 1 to 2^40"),
        ("bcast=chain:block_size=4X", "block_size=4X: a number of bytes"),
        ("reduce=late_last:late=4K", "late=4K: a rank of the communicator, such as 3"),
        ("reduce=late_last:late=-1", "late=-1: a rank of the communicator"),
        ("bcast=chain:block_size", "'block_size' is not parameter=value"),
        ("bcast=chain:block_size=1:block_size=2", "block_size appears twice"),
        ("allgatherv=pipelined_ring:order=up", "it is one of ranks, spread, nodes, both"),
        ("alltoall=native:block_size=4", "native has no parameters"),
        ("", "empty: pass operation=algorithm"),
        ("alltoall=ring,", "empty"),
        ("missing.json", "missing.json: no such file (seen from "),
        ("ring", "ring: no such file, nor operation=algorithm"),
        ("random:x", "'x' is not a seed"),
        ("random:1,alltoall=ring", "cannot be combined with other items"),
        ("alltoall=ring,robust", "robust: cannot be combined with other items"),
        ("robust,auto", "robust: cannot be combined with other items"),
    ],
)
def test_mistakes_on_the_command_line(specification: str, wrong: str) -> None:
    printed = complaint(specification)
    assert printed.startswith("--switch ") and wrong in printed


def test_plan_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        [
            {
                "operation": "allgatherv",
                "size": [4, {"from": 8, "to": 16}],
                "bytes": {"from": 1024, "to": "1M"},
                "algorithm": "pipelined_ring",
                "parameters": {"block_size": 32768, "blocks": "equal"},
                "why": "one process has nearly all data",
            },
            {"call_sites": ["md.py:88", "md.py:95"], "algorithm": "ring", "bytes": None},
        ],
    )
    found = plan.read(str(path))
    assert found.rules[0].sizes == ((4, 4), (8, 16))
    assert found.rules[0].why.startswith("one process")
    assert [rule.site for rule in found.rules] == [None, "md.py:88", "md.py:95"]
    assert found.format_for_recorder() == (
        "allgatherv pipelined_ring:block_size=32768:blocks=equal 1024 1048576 4-4,8-16 * *;"
        "* ring 0 -1 * md.py:88 *;* ring 0 -1 * md.py:95 *;"
    )
    both = plan.read(f"{path},alltoall=ring")
    assert len(both.rules) == 4
    assert plan.make_absolute(f"{path},alltoall=ring") == f"{path},alltoall=ring"


GOOD = {"operation": "alltoall", "algorithm": "ring"}


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (3, "is a number, not {operation, algorithm, ...}"),
        ({"operation": "alltoall"}, "has no algorithm"),
        ({"algorithm": "ring"}, "has neither operation nor call_sites"),
        (GOOD | {"operation": 4}, "operation is a number, not a text"),
        (GOOD | {"operation": "alltoal"}, "unknown operation 'alltoal'"),
        (GOOD | {"algorithm": "rign"}, "did you mean ring?"),
        (GOOD | {"algoritm": "ring"}, "a plan has no key 'algoritm'; did you mean algorithm?"),
        (GOOD | {"bytes": 5}, "bytes is not {from, to}"),
        (GOOD | {"bytes": {"from": -1}}, "bytes from=-1: a number of bytes from 0"),
        (GOOD | {"bytes": {"from": 9, "to": 3}}, "bytes from 9 to 3 is an empty range"),
        (GOOD | {"size": "4"}, "size is neither a number of processes"),
        (GOOD | {"size": 0}, "no communicator has a size of 0 to 0"),
        (GOOD | {"call_sites": "md.py:1"}, "call_sites is a text, not a list"),
        (GOOD | {"call_sites": ["md.py"]}, "'md.py' is not a call site"),
        (GOOD | {"parameters": [1]}, "parameters is a list"),
        (GOOD | {"parameters": {"block_size": 1}}, "ring has no parameters"),
        (GOOD | {"why": 1}, "why is a number"),
        (
            {"operation": "alltoallv", "algorithm": "ring", "bytes": {"from": 1}},
            "a choice cannot depend on the bytes of alltoallv",
        ),
        (
            {"operation": "bcast", "algorithm": "chain", "parameters": {"block_size": True}},
            "block_size=True: a number of bytes",
        ),
    ],
)
def test_mistakes_in_a_plan_file(tmp_path: Path, entry: object, wrong: str) -> None:
    path = written(tmp_path, [GOOD, entry])
    printed = complaint(str(path))
    assert printed.startswith(f"{path}, entry 2: ") and wrong in printed


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[{"operation":\n "alltoall",]', ", line 2, column 13: invalid JSON: "),
        ('{"a": 1}', ": a plan is a list of entries, this is an object"),
        ("\udcff", ": not a text file, so not a plan"),
    ],
)
def test_files_that_are_no_plan(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert f"{path}{wrong}" in complaint(str(path))


def test_too_many_rules_are_refused() -> None:
    many = plan.Plan(tuple(Rule("ring", "alltoall") for _ in range(6000)))
    with pytest.raises(UsageError, match="too many for the environment"):
        many.format_for_recorder()


def test_launcher_needs_no_numpy() -> None:
    loaded = modules_after(
        "from mpiprof.collectives.tune import plan; plan.read('md.py:8=ring').format_for_recorder()"
    )
    assert not loaded & {"numpy", "pandas", "subprocess"}


def test_lines_of_a_compiled_program(mpich: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "deep" / "loop.c"
    source.parent.mkdir()
    source.write_text(
        "int f(int x)\n{\n    return x + 1;\n}\nint main(void)\n{\n    return f(2);\n}\n"
    )
    for flags in (["-pie"], ["-no-pie"]):
        program = tmp_path / "loop"
        run([mpich.mpicc, "-g", "-O0", *flags, "-o", program, "deep/loop.c"], cwd=tmp_path)
        for site in ("loop.c:7", "deep/loop.c:7", f"{source}:7"):
            found = site_offsets.locate_sites(plan.read(f"{site}=ring,alltoall=ring"), program)
            first, last = found.rules[0].ranges[0]
            assert 0x400 < first <= last < 0x4000
            assert found.rules[1].ranges == ()
        for site, wrong in (
            ("loop.c:4000", "no code in that line; the nearest lines: "),
            ("roof.c:7", ".*loop contains no code of roof.c; its sources are .*loop.c"),
        ):
            with pytest.raises(UsageError, match=wrong):
                site_offsets.locate_sites(plan.read(f"{site}=ring"), program)
    run(["strip", program], check=True)
    with pytest.raises(UsageError, match="compile it with -g"):
        site_offsets.locate_sites(plan.read("loop.c:7=ring"), program)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--switch", "alltoall=rign"], "did you mean ring?"),
        (["-n", "2", "--switch", "alltoall=rign"], "did you mean ring?"),
        (["--record", "off", "--switch", "alltoall=ring"], "--switch requires the recorder"),
        (["--partial", "--switch", "alltoall=ring"], "--partial forbids"),
        (["--machine", "app.py", "--switch", "bcast=chain"], "app.py is not a machine table"),
    ],
)
def test_nothing_starts_when_it_is_wrong(
    mpich: Mpi, tmp_path: Path, words: list[str], wrong: str
) -> None:
    (tmp_path / "app.py").write_text("print('started')\n")
    done = run([mpich.python, "-m", "mpiprof", "run", *words, "app.py"], cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert wrong in done.stderr and done.stderr.count("\n") == 1


def test_recorder_gets_rules_and_machine(mpich: Mpi, tmp_path: Path) -> None:
    names = ("MPIPROF_SWITCH", "MPIPROF_SWITCH_MODEL")
    app = tmp_path / "app.py"
    app.write_text(f"import os\nfor name in {names}: print(os.environ.get(name))\n")
    link = {"alpha_ns": 1500.0, "beta_ns_per_byte": 0.25}
    (tmp_path / "machine.json").write_text(json.dumps({"within": link, "between": None}))
    run_it = [str(mpich.python), "-m", "mpiprof", "run"]
    words = ["--machine", "machine.json", "--switch", "bcast=chain"]
    done = run([*run_it, *words, "app.py"], cwd=tmp_path, check=True)
    assert done.stdout.split("\n")[:2] == ["bcast chain 0 -1 * * *;", "1500.0 0.25 0.25 0.0"]
    outer = dict.fromkeys(names, "random 3")
    assert run([*run_it, "app.py"], cwd=tmp_path, env=outer).stdout.split() == ["None", "None"]

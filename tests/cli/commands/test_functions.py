"""`retrograd run FILE.py:FUNCTION` and `retrograd compile`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from retrograd.assembler.image import from_image
from retrograd.isa.diagnostics import InputError

from retrograd.cli.arguments import parse_arguments
from retrograd.cli.terminal import BAD_INPUT, LIMIT, OK, TRAPPED

Cli = Callable[..., tuple[int, str, str]]

SOURCE = '''\
import retrograd as rg
from retrograd import Array, fixed, reversible

@reversible
def norm(r: fixed, xs: Array[fixed, "n"]):
    """r += |xs|"""
    with rg.routine() as squares:
        s = 0.0
        for x in xs:
            s += x * x
    r += rg.sqrt(s)
    ~squares

@reversible
def divide(y: int, x: int, z: int = 2):
    y += x // z

@rg.struct
class Pair:
    a: int
    b: int

    @reversible
    def swap(self):
        rg.swap(self.a, self.b)

@reversible
def pile(s: rg.Stack[int, 4], p: Pair, x: int):
    rg.push(s, x)
    p.a += 1

@reversible
def mix(x: rg.uint, a: Array[rg.uint, "n"], s: rg.Stack[rg.uint, 4]):
    x ^= x >> 7
    a += x
    rg.push(s, a[0])

@reversible
def thirds(y: rg.uint, x: rg.uint):
    y += x // 3

helper = 3
'''


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("norm.py").write_text(SOURCE)


def test_forward_and_backward(cli: Cli) -> None:
    code, out, err = cli("run", "norm.py:norm", "0.0", "[3.0, 4.0]", "--engine", "reference")
    assert (code, err) == (OK, "")
    assert out.splitlines()[:2] == ["r  = 5.0", "xs = [3., 4.]"]
    assert out.endswith("0 bits erased; engine: reference\n")
    for arguments in (("norm.py:norm", "5.0", "[3.0, 4.0]", "--backward"), ("norm.py:~norm", "5.0", "[3.0, 4.0]")):
        assert cli("run", *arguments)[1].startswith("r  = 0.0\n")
    assert cli("run", "norm.py:~norm", "0.0", "[3.0, 4.0]", "--backward")[1].startswith("r  = 5.0\n")


def test_arguments_may_stand_behind_options(cli: Cli) -> None:
    expected = cli("run", "norm.py:divide", "1", "-7", "2", "--cycles")
    assert expected[0] == OK
    assert cli("run", "norm.py:divide", "--cycles", "1", "-7", "2") == expected
    assert cli("run", "norm.py:divide", "1", "--cycles", "-7", "2") == expected
    assert cli("compile", "norm.py:norm", "--asm", "0.0", "[3.0, 4.0]")[0] == OK
    for wrong in ("-x", "--unknown"):
        code, out, err = cli("run", "norm.py:divide", "--cycles", "1", wrong, "2")
        assert (code, out) == (BAD_INPUT, "")
        assert f"unrecognized arguments: 1 {wrong} 2" in err


def test_json(cli: Cli) -> None:
    report = json.loads(cli("run", "norm.py:norm", "r=1", "xs=[3, 4]", "--json")[1])
    assert report["schema"] == "retrograd.call/1"
    assert report["values"] == {"r": 6.0, "xs": [3.0, 4.0]}
    assert (report["function"], report["backward"], report["erased_bits"]) == ("norm", False, 0)


def test_formats_of_functions(cli: Cli) -> None:
    """`run` and `energy` take a format of functions, and refuse it of programs."""
    code, out, _ = cli("run", "norm.py:norm", "0", "[3, 4]", "--format", "Q16.16")
    assert (code, out.splitlines()[0]) == (OK, "r  = 5.0")
    assert cli("run", "norm.py:~norm", "5", "[3, 4]", "--format", "16,8")[1].startswith("r  = 0.0\n")
    assert cli("run", "norm.py:norm", "0", "[30, 40]", "--format", "16,8")[0] == TRAPPED
    report = json.loads(cli("energy", "norm.py:norm", "0", "[3, 4]", "--format", "Q16.16", "--json")[1])
    assert report["format"] == {"width": 32, "frac": 16}
    for command in ("run", "energy"):
        assert "--format is for functions" in cli(command, "add.rga", "--format", "32,16")[2]
        assert "RG0604" in cli(command, "norm.py:norm", "0", "[3, 4]", "--format", "33,1")[2]


def test_arrays_from_files(cli: Cli) -> None:
    np.save("xs.npy", np.array([6.0, 8.0]))
    assert cli("run", "norm.py:norm", "0", "@xs.npy")[1].startswith("r  = 10.0\n")


def test_defaults_and_negative_numbers(cli: Cli) -> None:
    assert cli("run", "norm.py:divide", "1", "-7")[1].startswith("y = -3\nx = -7\nz = 2\n")


def test_stacks_and_structs(cli: Cli) -> None:
    run = ("run", "norm.py:pile")
    out = "s = [{}5]\np = Pair(a=2, b=7)\nx = 0\n"
    assert cli(*run, "[]", '{"a": 1, "b": 7}', "5")[1].startswith(out.format(""))
    assert cli(*run, "[3, 4]", "p={'b': 7, 'a': 1}", "x=5")[1].startswith(out.format("3, 4, "))
    assert "the fields of Pair are a, b" in cli(*run, "[]", '{"a": 1}', "5")[2]
    assert "declared otherwise" in cli(*run, "[]", '{"a": 1, "b": 7}', '{"a": 1}')[2]
    assert "RG0603" in cli(*run, "[1, 2, 3, 4, 5]", '{"a": 1, "b": 7}', "5")[2]
    assert "RG0603" in cli(*run, "[]", '{"a": [1], "b": 7}', "5")[2]


EXTERNAL = """\
from retrograd import external, fixed, reversible

@reversible
def told(y: fixed, x: fixed):
    y += x * x
    with external():
        print("y is", y)
    y += x
"""


def test_every_step_of_a_function(cli: Cli) -> None:
    """The steps are as many as the run has; its values, blocks and traps are those of a run without --trace."""
    Path("told.py").write_text(EXTERNAL)
    for arguments, code in (
        (("norm.py:norm", "0.0", "[3.0, 4.0]"), OK),
        (("norm.py:~norm", "5.0", "[3.0, 4.0]"), OK),
        (("told.py:told", "0.0", "3.0"), OK),
        (("norm.py:divide", "0", "7", "0"), TRAPPED),
        (("norm.py:norm", "0", "[1.0]", "--max-steps", "5"), LIMIT),
    ):
        plain, traced = cli("run", *arguments), cli("run", *arguments, "--trace")
        # The trace runs on the reference machine, which is not named.
        assert (traced[0], traced[1]) == (code, plain[1].replace("; engine: threaded", ""))
        steps, rest = [], traced[2]
        while re.match(r" *\d+ [→←] ", rest):
            line, _, rest = rest.partition("\n")
            steps.append(line)
        assert rest == plain[2]
        assert [int(line.split()[0]) for line in steps] == [*range(1, len(steps) + 1)]
        if code == OK:
            assert f"{len(steps)} steps" in traced[1]
    assert "y is 9.0" in cli("run", "told.py:told", "0.0", "3.0", "--trace")[1]
    assert "M[0]: 0 → " in cli("run", "norm.py:norm", "0.0", "[3.0, 4.0]", "--trace")[2]


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "energy",
        "compile",
        "ranges",
        "graph -o pile.svg",
        "debug -x script",
        "trace -o pile.vcd",
        "devices --program",
    ],
)
def test_every_command_takes_structs_and_stacks(cli: Cli, command: str) -> None:
    Path("script").write_text("quit\n")
    code, _, err = cli(*command.split(), "norm.py:pile", "[3]", '{"a": 1, "b": 7}', "5")
    assert (code, err) == (OK, "")


@pytest.mark.parametrize(
    "options",
    [
        (), ("--no-optimise",), ("--erase",), ("--erase", "squares"), ("--memory-budget", "100"), ("--format", "16,8"),
        ("--strategy", "energy", "--tech", "cmos45"),
    ],
)  # fmt: skip
def test_the_picture_of_a_function_is_that_of_its_image(cli: Cli, options: tuple[str, ...]) -> None:
    """`graph` has the options of `compile`: no arguments are needed where annotations state all types."""
    given = ("norm.py:norm", "0.0", "[1.0, 2.0]", *options) if options else ("norm.py:divide",)
    assert cli("compile", *given, "-o", "image")[0] == OK
    drawn = []
    for names in (given, ("image",)):
        assert cli("graph", *names, "-o", "f.svg")[0] == OK
        # An image has the numbers of the source's lines, and not their text.
        drawn.append(re.sub(r">(\d+  )[^<]*<", r">\1<", Path("f.svg").read_text()))
    # The first text of a picture is its name.
    assert drawn[0].split("</text>", 1)[1] == drawn[1].split("</text>", 1)[1]


def test_pictures_of_programs_have_no_options_of_compilation(cli: Cli) -> None:
    for option in ("--erase", "--no-optimise", "--format=32,16", "--memory-budget=1", "--strategy=energy"):
        for command in (("graph", "-o", "x.svg"), ("compile", "--emit", "llvm")):
            code, _, err = cli(*command, "add.rga", option)
            assert (code, err.partition(":")[0]) == (BAD_INPUT, "error[RG0512]")


def test_a_struct_as_a_netlist(cli: Cli) -> None:
    code, _, err = cli("gates", "norm.py:Pair.swap", '{"a": 1, "b": 7}', "--format", "4,0")
    assert (code, err) == (OK, "")


def test_unsigned_words_are_read_and_written_exactly(cli: Cli) -> None:
    big = 2**64 - 3
    x = big ^ big >> 7
    first = (x + 5) % 2**64
    arguments = ("norm.py:mix", str(big), f"[5, {2**63 + 1}]", f"[{big}]")
    code, out, _ = cli("run", *arguments)
    assert code == OK
    assert out.splitlines()[0] == f"x = {x}"
    assert out.splitlines()[2] == f"s = [{big}, {first}]"
    values = json.loads(cli("run", *arguments, "--json")[1])["values"]
    assert values == {"x": x, "a": [0, (x + 2**63 + 1) % 2**64], "s": [big, first]}
    np.savez("many.npz", y=np.zeros(2, np.uint64), x=np.array([big, 5], np.uint64))
    assert cli("run", "norm.py:thirds", "--batch", "many.npz", "-o", "out.npz")[0] == OK
    with np.load("out.npz") as found:
        assert (found["y"].dtype, found["y"].tolist(), found["x"].tolist()) == (np.uint64, [big // 3, 1], [big, 5])
    for wrong in ("-1", str(2**64), "1.5"):
        assert cli("run", "norm.py:mix", f"x={wrong}", "a=[1]", "s=[]")[0] == BAD_INPUT


def test_traps_and_limits_have_exit_codes(cli: Cli) -> None:
    code, _, err = cli("run", "norm.py:divide", "0", "7", "0")
    assert code == TRAPPED
    assert err.startswith("error[RG0402]")
    assert "norm.py:16:" in err
    code, _, err = cli("run", "norm.py:norm", "0", "[1.0]", "--max-steps", "5")
    assert code == LIMIT
    assert "RG0420" in err


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("run", "none.py:norm"), "RG0501"),
        (("run", "norm.py:nrom", "0", "[1.0]"), "did you mean `norm`?"),
        (("run", "norm.py:helper"), "RG0509"),
        (("run", "norm.py:norm", "0"), "called without `xs`"),
        (("run", "norm.py:norm", "0", "[1.0"), "RG0510"),
        (("run", "norm.py:norm", "0", "__import__('os')"), "RG0510"),
        (("run", "norm.py:norm", "0", "@none.npy"), "RG0501"),
        (("compile", "norm.py:norm"), "`xs` is open"),
        (("compile", "norm.py:divide", "--dump-ir", "nothing"), "RG0511"),
        (("compile", "norm.py:divide", "--format", "33,1"), "RG0604"),
    ],
)  # fmt: skip
def test_wrong_input(cli: Cli, arguments: tuple[str, ...], found: str) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert found in err
    assert "Traceback" not in err


@pytest.mark.parametrize("power", [52, 53, 54, 55, 60, 62])
@pytest.mark.parametrize("shape", ["[1.5, {}]", "[{}, 1.5]", "[[1.5, 2], [3, {}]]"])
def test_an_integer_beside_real_numbers_is_exact_or_refused(shape: str, power: int) -> None:
    """An array of both has float64s. Alone the integers are exact."""
    for value in (sign * ((1 << power) + more) for sign in (1, -1) for more in range(-3, 4)):
        text = shape.format(value)
        if int(float(value)) == value:
            (array,), _ = parse_arguments([text])
            assert float(value) in array.ravel().tolist()
        else:
            with pytest.raises(InputError, match=r"RG0510.*NumPy rounds"):
                parse_arguments([text])
        (alone,), _ = parse_arguments([f"[{value}]"])
        assert [int(x) for x in alone] == [value]


OPEN = """\
from retrograd import fixed, reversible

@reversible
def layers(y: fixed, p, on: bool):
    if on:
        y += p["a"][0] * p["b"]["c"][1]

@reversible
def rows(y: fixed, p):
    y += p[0]["w"][0] * p[1]["w"][1]
"""


@pytest.mark.parametrize("on", ["True", "true", "on=true", "on=True", "False", "false", "on=false"])
def test_a_dict_for_a_parameter_without_annotation(cli: Cli, on: str) -> None:
    """Its type is that of its value, as in a call; bools may be written as in JSON."""
    Path("open.py").write_text(OPEN)
    p = '{"a": [2.0], "b": {"c": [1.0, 5.0]}}'
    code, out, err = cli("run", "open.py:layers", "0.0", p, on)
    assert (code, err) == (OK, "")
    out = re.sub(r" +=", " =", out)
    assert out.startswith("y = 10.0" if "rue" in on else "y = 0.0")
    assert f"on = {'rue' in on}" in out
    code, out, _ = cli("run", "open.py:rows", "0.0", '[{"w": [2.0, 3.0]}, {"w": [1.0, 4.0]}]')
    assert (code, out.split("\n")[0]) == (OK, "y = 8.0")
    code, _, err = cli("run", "norm.py:divide", "0", '{"a": 1}')
    assert code == BAD_INPUT
    assert "RG0510" in err


def test_images_run_like_the_function(cli: Cli) -> None:
    code, out, _ = cli("compile", "norm.py:divide", "-o", "divide.rgx")
    assert code == OK
    assert out.startswith("divide.rgx: ")
    program = from_image(Path("divide.rgx").read_bytes())
    assert dict(program.data_labels) == {"y": 0, "x": 1, "z": 2}
    code, out, _ = cli("run", "divide.rgx", "--set", "x=9", "--set", "z=4")
    assert code == OK
    assert "0        2" in out or " 2 " in out


def test_inverse_images(cli: Cli) -> None:
    cli("compile", "norm.py:divide", "-o", "forward.rgx")
    cli("compile", "norm.py:~divide", "-o", "backward.rgx")
    forward, backward = (from_image(Path(p).read_bytes()) for p in ("forward.rgx", "backward.rgx"))
    assert backward.code == (~forward).code


def test_assembly_text_assembles_to_the_program(cli: Cli) -> None:
    code, text, _ = cli("compile", "norm.py:norm", "0.0", "[1.0, 2.0]", "--asm")
    assert code == OK
    assert "; 11: r += rg.sqrt(s)" in text
    Path("norm.rga").write_text(text)
    assert cli("asm", "norm.rga", "-o", "a.rgx")[0] == OK
    assert cli("compile", "norm.py:norm", "0.0", "[1.0, 2.0]", "-o", "b.rgx")[0] == OK
    a, b = (from_image(Path(p).read_bytes()) for p in ("a.rgx", "b.rgx"))
    assert a.code == b.code


def test_the_intermediate_code_after_each_pass(cli: Cli) -> None:
    _, whole, _ = cli("compile", "norm.py:divide", "--dump-ir", "all")
    names = [line.removeprefix("# after ") for line in whole.splitlines() if line.startswith("# after ")]
    assert names[0] == "lower"
    assert "inline_calls" in names
    for name in dict.fromkeys(names):
        code, one, _ = cli("compile", "norm.py:divide", "--dump-ir", name)
        assert code == OK
        assert one.startswith(f"# after {name}\n")


def test_summary_and_erasing(cli: Cli) -> None:
    _, out, _ = cli("compile", "norm.py:norm", "0.0", "[1.0, 2.0]")
    assert "r: fixed" in out
    assert "xs: Array[fixed, 2]" in out
    assert "erase r" in cli("compile", "norm.py:norm", "0.0", "[1.0, 2.0]", "--asm", "--erase")[1]
    assert "erase r" not in cli("compile", "norm.py:norm", "0.0", "[1.0, 2.0]", "--asm")[1]
    assert ".format 32, 16" in cli("compile", "norm.py:divide", "--asm", "--format", "32,16")[1]


def test_a_program_takes_no_arguments(cli: Cli) -> None:
    Path("empty.rga").write_text("start\nfinish\n")
    code, _, err = cli("run", "empty.rga", "1.0")
    assert code == BAD_INPUT
    assert "RG0510" in err


MIX = """\
from retrograd import Array, fixed, lognum, reversible

@reversible
def mix(x: fixed, y: fixed):
    x += y * 1000000
    y += x * 1000

@reversible
def scale(x: lognum, ys: Array[lognum, "n"], k: int):
    for y in ys:
        x *= y
"""


def test_numbers_that_are_printed_come_back(cli: Cli) -> None:
    """A number that a float would round has its word behind it, and `word(N)` is that number."""
    Path("mix.py").write_text(MIX)
    out = cli("run", "mix.py:mix", "0.1", "0.3")[1].splitlines()
    assert out[:2] == ["x = 300000.1000465662", "y = 300000100.3465662 = word(1288490619785220189)"]
    back = cli("run", "mix.py:~mix", *(line.split(" = ")[-1] for line in out[:2]))[1].splitlines()
    assert back[:2] == ["x = 0.10000000009313226", "y = 0.30000000004656613"]
    report = json.loads(cli("run", "mix.py:mix", "0.1", "0.3", "--json")[1])
    assert report["words"] == {"y": [1288490619785220189]}
    back = cli("run", "mix.py:~mix", "y=word(1288490619785220189)", "x=300000.1000465662")[1].splitlines()
    assert back[0] == "x = 0.10000000009313226"
    # Beyond the range of floats.
    out = cli("run", "mix.py:scale", "5e-324", "[5e-324, 0.5]", "1")[1].splitlines()
    assert out[0] == "x  = 0.0 = word(9223362806970056704)"
    back = cli("run", "mix.py:~scale", "word(9223362806970056704)", "[5e-324, word(9223372032559808512)]", "1")[1]
    assert back.splitlines()[:2] == ["x  = 5e-324", "ys = [5.e-324, 5.e-001]"]


def test_words_for_what_is_no_real_number(cli: Cli) -> None:
    Path("mix.py").write_text(MIX)
    for arguments, said in (
        (["1.0", "[2.0]", "word(7)"], "word(7) stands for a number of a parameter that is declared fixed or lognum"),
        (["1.0", "[2.0]", "1", "word(7)"], "word(7) stands for"),
        ([f"word({1 << 64})", "[2.0]", "1"], f"word({1 << 64}) does not fit in 64 bits"),
        (["word(1.5)", "[2.0]", "1"], "`word(1.5)` is no value"),
        (["word()", "[2.0]", "1"], "`word()` is no value"),
        (["word(-1)", "[2.0]", "1"], "`word(-1)` is no value"),
    ):
        code, out, err = cli("run", "mix.py:scale", *arguments)
        assert (code, out) == (BAD_INPUT, "")
        assert f"error[RG0510]: {said}" in err


NAMES = """\
from retrograd import Array, fixed, reversible

@reversible
def f(_x: fixed, y: fixed, __: Array[fixed, 2], _make: fixed, *_zs: fixed):
    y += _x * _x + __[0] + _make
    for z in _zs:
        y += z

@reversible
def g(_x: fixed, y: fixed):
    y += _x
"""


def test_json_keeps_every_name(cli: Cli) -> None:
    """Names that begin with `_`, keywords, and names of methods of tuples; further arguments are lists."""
    Path("names.py").write_text(NAMES)
    given = ("names.py:f", "3.0", "0.0", "[1.0, 2.0]", "0.5", "0.25")
    np.savez("b.npz", _x=[3.0], y=[0.0])
    values = {"_x": 3.0, "y": 10.75, "__": [1.0, 2.0], "_make": 0.5, "_zs": [0.25]}
    assert json.loads(cli("run", *given, "--json")[1])["values"] == values
    each = json.loads(cli("run", "names.py:g", "--batch", "b.npz", "--json")[1])["each"]
    assert each["values"] == {"_x": [3.0], "y": [3.0]}
    report = json.loads(cli("grad", *given, "--loss", "y", "--json")[1])
    assert report["gradients"] == {"_x": 6.0, "__": [1.0, 0.0], "_make": 1.0, "_zs": [1.0]}
    assert "∂y/∂_x " in cli("grad", *given, "--loss", "y")[1]
    Path("names.ja").write_text("procedure main()\n    int in\n    int try[2]\n    in += 3\n    try[1] += in\n")
    assert json.loads(cli("run", "names.ja", "--json")[1])["values"] == {"in": 3, "try": [0, 3]}


def test_options_of_janus_are_refused_for_other_programs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.rga").write_text("start\nfinish\n")
    (tmp_path / "own.py").write_text(SOURCE)
    for program in ("p.rga", "own.py:divide"):
        for option in (("--dialect", "1982"), ("--entry", "f")):
            code, _, err = cli("run", str(tmp_path / program), *option)
            assert code == BAD_INPUT
            assert f"RG0512]: {option[0]} is for programs of Janus" in err

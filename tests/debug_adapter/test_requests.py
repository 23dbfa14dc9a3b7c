"""A client's script: launch, breakpoints of every kind, motions in both directions, views, evaluation, the end."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.debug_adapter.client import Client, Refused, adapter

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
SQUARES = EXAMPLES / "squares.rga"
SHAPES = f"{HERE / 'shapes.py'}:f"
FIB = """\
procedure fib(int x1, int x2, int n)
    if n = 0 then
        x1 += 1
        x2 += 1
    else
        n -= 1
        call fib(x1, x2, n)
        x1 += x2
        x1 <=> x2
    fi x1 = x2

procedure main()
    int x1
    int x2
    int n
    n += 4
    call fib(x1, x2, n)
"""
ARGUMENTS = ['{"x": 0.5, "v": [1, 2]}', "[[0.0, 0.0], [0.0, 0.0]]", "3", "True", str([0] * 30)]


def lines_of(client: Client, breakpoints: list[dict[str, object]]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.request(
        "setBreakpoints", source={"path": str(SQUARES)}, breakpoints=breakpoints
    )["breakpoints"]
    return found


def test_breakpoints_of_lines() -> None:
    """Conditions, hit conditions by the number of passes in both directions, messages, lines without code."""
    with adapter() as c:
        capabilities = c.launch(SQUARES, configure=False, set={"n": 5})
        assert capabilities["supportsStepBack"]
        found = lines_of(
            c, [{"line": 8, "condition": "i == 2"}, {"line": 10}, {"line": 99}, {"line": 8, "condition": "?"}]
        )
        assert [b["verified"] for b in found] == [True, True, False, False]
        assert found[0]["line"] == 8
        found = lines_of(c, [{"line": 8, "condition": "i == 2"}, {"line": 8, "logMessage": "{{i = {i}}}, {1 // i}"}])
        c.request("configurationDone")
        assert c.stopped("breakpoint")["hitBreakpointIds"] == [found[0]["id"]]
        assert (c.value("i"), c.line()) == ("2", 8)
        log = [c.event("output")["output"] for _ in range(3)]
        assert [text.partition(",")[0] for text in log] == ["{i = 0}", "{i = 1}", "{i = 2}"]
        assert "by zero" in log[0]
        lines_of(c, [{"line": 8, "hitCondition": "% 2"}])
        c.move("continue", "breakpoint")
        assert c.value("i") == "3"
        c.move("reverseContinue", "breakpoint")
        assert c.value("i") == "1"
        c.move("reverseContinue", "entry")
        lines_of(c, [{"line": 8, "hitCondition": "4"}])
        c.move("continue", "breakpoint")
        assert c.value("i") == "3"


def test_breakpoints_of_code_and_data() -> None:
    with adapter() as c:
        c.launch(SQUARES, configure=False, set=["n=5"])
        found = c.request("setFunctionBreakpoints", breakpoints=[{"name": "again"}, {"name": "agian"}])["breakpoints"]
        assert [b["verified"] for b in found] == [True, False]
        assert "`again`" in found[1]["message"]
        c.request("configurationDone")
        c.stopped("function breakpoint")
        c.request("setFunctionBreakpoints", breakpoints=[])
        found = c.request(
            "setInstructionBreakpoints",
            breakpoints=[{"instructionReference": "0x2", "offset": 1}, {"instructionReference": "0x99"}],
        )
        assert [b["verified"] for b in found["breakpoints"]] == [True, False]
        c.move("continue", "instruction breakpoint")
        assert c.value("pc") == "3"
        c.request("setInstructionBreakpoints", breakpoints=[])
        # A program without variables begins with its registers, which editors then unfold.
        [registers, *_] = c.request("scopes", frameId=1)["scopes"]
        assert registers["name"] == "Registers"
        registers = registers["variablesReference"]
        data = c.request("dataBreakpointInfo", variablesReference=registers, name="sum")
        assert data["accessTypes"] == ["write"]
        c.request("setDataBreakpoints", breakpoints=[{"dataId": data["dataId"], "condition": "sum > 5"}])
        assert c.move("continue", "data breakpoint")["text"] == "r2: 5 → 14"
        # Backward a watch stands before the change, where the condition is false for the first two changes.
        c.request("setDataBreakpoints", breakpoints=[{"dataId": data["dataId"]}])
        assert c.move("reverseContinue", "data breakpoint")["text"] == "r2: 5 → 14"
        assert c.move("reverseContinue", "data breakpoint")["text"] == "r2: 1 → 5"
        found = c.request("setDataBreakpoints", breakpoints=[{"dataId": "r2", "accessType": "read"}])["breakpoints"]
        assert not found[0]["verified"]
        assert c.request("dataBreakpointInfo", name="nothing")["dataId"] is None
        assert c.request("breakpointLocations", source={"path": str(SQUARES)}, line=1, endLine=8)["breakpoints"] == [
            {"line": line} for line in (6, 7, 8)
        ]


def test_steps_by_lines_and_instructions() -> None:
    """The default step back is over one line of the source."""
    with adapter() as c:
        c.launch(SHAPES, args=ARGUMENTS, stopOnEntry=True)
        c.stopped("entry")
        assert c.event("output") == {"category": "stdout", "output": "the file is executed\n"}
        forward = []
        for _ in range(4):
            c.move("next")
            forward.append(c.line())
        assert forward == [24, 25, 26, 27]
        pc = int(c.value("pc"))
        back = []
        for _ in range(3):
            c.move("stepBack")
            back.append(c.line())
        assert back == [26, 25, 24]
        for _ in range(3):
            c.move("next")
        assert (c.line(), int(c.value("pc"))) == (27, pc)
        c.move("stepBack", granularity="instruction")
        assert int(c.value("pc")) == pc - 1
        # A step over a call stops at a breakpoint within.
        c.request("setBreakpoints", source={"path": str(HERE / "shapes.py")}, breakpoints=[{"line": 29}])
        c.move("continue", "breakpoint")
        c.request("setBreakpoints", source={"path": str(HERE / "shapes.py")}, breakpoints=[{"line": 20}])
        c.move("next", "breakpoint")
        assert c.line() == 20
        c.request("setBreakpoints", source={"path": str(HERE / "shapes.py")}, breakpoints=[])
        c.move("stepOut")
        assert len(c.request("stackTrace", threadId=1)["stackFrames"]) == 1


def test_calls() -> None:
    """Frames of a recursion; the variables of an outer frame are those at its call."""
    with adapter() as c:
        c.launch(SHAPES, configure=False, args=ARGUMENTS)
        c.request(
            "setBreakpoints",
            source={"path": str(HERE / "shapes.py")},
            breakpoints=[{"line": 20, "condition": "n == 1"}],
        )
        c.request("configurationDone")
        c.stopped("breakpoint")
        one = c.request("stackTrace", threadId=1, levels=1)
        assert len(one["stackFrames"]) == 1
        assert one["totalFrames"] == 2
        frames = c.request("stackTrace", threadId=1)["stackFrames"]
        assert [f["name"] for f in frames] == ["inner", "inner", "inner", "f"]
        assert c.scope("Variables")["n"]["value"] == "1"
        assert c.scope("Variables at the call", frame=4)["n"]["value"] == "3"
        assert c.request("evaluate", expression="n", frameId=4)["result"] == "3"
        with pytest.raises(Refused, match="no frame"):
            c.request("scopes", frameId=9)


def test_variables_by_structure() -> None:
    with adapter() as c:
        c.launch(SHAPES, args=ARGUMENTS, stopOnEntry=True)
        c.stopped("entry")
        for _ in range(4):
            c.move("next")
        v = c.scope("Variables")
        assert (v["p"]["value"], v["p"]["type"]) == ("{v: [1, 2], x: 2}", "struct")
        p = c.children(v["p"]["variablesReference"])
        assert c.children(p["v"]["variablesReference"])["[1]"]["value"] == "2"
        assert (v["m"]["type"], v["b"]["value"]) == ("fixed[2 × 2]", "True")
        large = v["large"]["variablesReference"]
        part = c.request("variables", variablesReference=large, start=28, count=5)["variables"]
        assert [row["name"] for row in part] == ["[28]", "[29]"]
        row = c.children(v["m"]["variablesReference"])["[0]"]["variablesReference"]
        assert c.request("setVariable", variablesReference=row, name="[1]", value="7.25")["value"] == "7.25"
        assert c.event("invalidated") == {"areas": ["variables"]}
        assert c.value("m[0, 1]") == "7.25"
        assert c.value("m") == "[[0, 7.25], [0, 0]]"
        for value in ("1e999", "nothing", "5e9", ""):
            with pytest.raises(Refused, match="no value of type fixed"):
                c.request("setVariable", variablesReference=row, name="[1]", value=value)
        with pytest.raises(Refused, match="no word of its own"):
            c.request(
                "setVariable",
                variablesReference=c.request("scopes", frameId=1)["scopes"][0]["variablesReference"],
                name="p",
                value="1",
            )
        assert c.request("setExpression", expression="n", value="2")["value"] == "2"
        c.move("continue", "pause")
        assert "p.v[1]" in c.scope("Memory")
        with pytest.raises(Refused, match="references end"):
            c.request("variables", variablesReference=row)


def test_evaluation() -> None:
    with adapter() as c:
        c.launch(SQUARES, set={"n": 5})
        c.stopped("pause")
        assert c.value("sum + 1") == "56"
        assert c.value("last-write sum").startswith("step 22: r2: 30 → 55")
        assert c.value("why sum", "repl") == c.value("why sum")
        for text, context, message in [
            ("turn", "watch", "the console takes it"), ("why sum", "hover", "no expression"),
            ("nothing", "hover", "no place of this program"), ("to x", "repl", "no integer"),
        ]:  # fmt: skip
            with pytest.raises(Refused, match=message):
                c.request("evaluate", expression=text, context=context)
        last = int(c.scope("Machine")["step"]["value"])
        c.value(f"to {last - 20}", "repl")
        c.stopped("goto")
        then = c.scope("Registers")
        c.value(f"to {last}", "repl")
        c.stopped("goto")
        assert "the run goes backward" in c.value("turn", "repl")
        assert c.stopped("goto")["description"] == "step 0"
        c.move("next")
        assert c.value("direction") == "-1"
        c.value("to 20", "repl")
        c.stopped("goto")
        # Twenty steps after the turn the words are those of twenty steps before it.
        now = c.scope("Registers")
        assert {name: v["value"] for name, v in now.items()} == {name: v["value"] for name, v in then.items()}
        c.value("set i = 7", "repl")
        assert c.value("i") == "7"
        names = [t["label"] for t in c.request("completions", text="re", column=3)["targets"]]
        assert "reverse-line" in names
        assert [t["label"] for t in c.request("completions", text="print su", column=9)["targets"]] == ["sum"]
        c.value("quit", "repl")
        c.event("terminated")


def test_memory_and_code(tmp_path: Path) -> None:
    text = ".data\ntotal: .word 258\nother: .word 7\n.text\n start\n add r1, 5\n finish\n"
    (tmp_path / "data.rga").write_text(text)
    with adapter() as c:
        c.launch("data.rga", cwd=str(tmp_path))
        c.stopped("pause")
        words = c.scope("Memory")
        assert words["total"]["memoryReference"] == "M[0]"
        found = c.request("readMemory", memoryReference="M[0]", offset=0, count=100)
        assert base64.b64decode(found["data"]) == (258).to_bytes(8, "little") + (7).to_bytes(8, "little")
        assert found["unreadableBytes"] == 84
        data = base64.b64encode(b"\x05\x00\x09").decode()
        assert c.request("writeMemory", memoryReference="M[0]", offset=7, data=data)["bytesWritten"] == 3
        assert c.value("other") == str(9 << 8)
        assert c.value("total") == str(258 + (5 << 56))
        with pytest.raises(Refused, match="lie outside"):
            c.request("writeMemory", memoryReference="M[1]", offset=6, data=data)
        code = c.request("disassemble", memoryReference="0x1", instructionOffset=-2, instructionCount=5)["instructions"]
        assert [row["instruction"] for row in code] == ["", "start", "imm.add r1, 5", "finish", ""]
        assert code[2]["line"] == 6
        assert code[0]["presentationHint"] == "invalid"


def test_large_memory(tmp_path: Path) -> None:
    """Memory comes in parts, and each word can be set and watched."""
    path = tmp_path / "large.rga"
    path.write_text(
        ".memory 100000\n start\n add r1, 70000\n add r2, 3\n st.add [r1 + 5], r2\n sub r2, 3\n sub r1, 70000\n finish\n"
    )
    with adapter() as c:
        c.launch(path, stopOnEntry=True)
        c.stopped("entry")
        scope = next(s for s in c.request("scopes", frameId=1)["scopes"] if s["name"] == "Memory")
        assert scope["indexedVariables"] == 100000
        number = scope["variablesReference"]
        assert len(c.request("variables", variablesReference=number)["variables"]) == 10000
        part = c.request("variables", variablesReference=number, start=70004, count=2)["variables"]
        assert [v["name"] for v in part] == ["M[70004]", "M[70005]"]
        c.request("setVariable", variablesReference=number, name="M[70005]", value="-9")
        assert c.value("M[70005]") == "-9"
        data = c.request("dataBreakpointInfo", variablesReference=number, name="M[70005]")["dataId"]
        c.request("setDataBreakpoints", breakpoints=[{"dataId": data}])
        assert c.move("continue", "data breakpoint")["text"] == "M[70005]: -9 → -6"
        with pytest.raises(Refused, match="no variable"):
            c.request("setVariable", variablesReference=number, name="M[100000]", value="1")


def test_traps(tmp_path: Path) -> None:
    path = tmp_path / "traps.rga"
    path.write_text("start\n add r1, 5\n assertz r1\n finish\n")
    with adapter() as c:
        c.launch(path)
        assert c.stopped("exception")["description"] == "trap RG0407"
        assert c.request("exceptionInfo", threadId=1)["exceptionId"] == "RG0407"
        c.move("stepBack")
        assert c.line() == 2
        for filters in ({"filters": []}, {"filterOptions": [{"filterId": "trap", "condition": "RG0402"}]}):
            c.request("setExceptionBreakpoints", **{"filters": [], **filters})
        c.request("continue", threadId=1)
        assert c.event("exited") == {"exitCode": 3}
        c.event("terminated")
        with pytest.raises(Refused, match="no program"):
            c.request("stackTrace", threadId=1)
    with adapter() as c:
        c.launch(path, configure=False)
        c.request(
            "setExceptionBreakpoints", filters=[], filterOptions=[{"filterId": "trap", "condition": "rg0402, RG0407"}]
        )
        c.request("configurationDone")
        c.stopped("exception")


@pytest.mark.parametrize(
    ("program", "more"),
    [
        ("examples/vlad/newton.vlad", {"expression": 1}),
        ("fib.ja", {}),
        (f"{EXAMPLES / 'bessel.py'}:bessel", {"args": ["0.0", "2.5"], "loss": "out"}),
    ],
    ids=["vlad", "janus", "python"],
)
def test_programs_of_every_front_end(program: str, more: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "fib.ja").write_text(FIB)
    path = str((tmp_path if program == "fib.ja" else EXAMPLES.parent) / program)
    with adapter() as c:
        c.launch(path, stopOnEntry=True, **more)
        c.stopped("entry")
        for _ in range(3):
            c.move("next")
        assert c.line() > 0
        c.move("continue", "pause")
        if "loss" in more:
            assert c.scope("Cotangents")
            assert c.value("cotangent(z)").startswith("0.1402")
        c.move("reverseContinue", "entry")
        assert c.scope("Machine")["step"]["value"] == "0"


def test_the_end() -> None:
    """Without debugging, and where nothing stops at the end, the program ends; a second `continue` ends it else."""
    for arguments in ({"noDebug": True}, {"stopAtEnd": False}):
        with adapter() as c:
            c.launch(SQUARES, set={"n": 5}, **arguments)
            assert c.event("exited") == {"exitCode": 0}
            c.event("terminated")
            c.request("disconnect")
    with adapter() as c:
        c.launch(SQUARES, set={"n": 5})
        c.stopped("pause")
        c.move("next", "pause")
        c.request("continue", threadId=1)
        c.event("terminated")


def test_lines_from_zero() -> None:
    with adapter() as c:
        c.request("initialize", adapterID="retrograd", linesStartAt1=False, columnsStartAt1=False)
        c.request("launch", program=str(SQUARES), stopOnEntry=True, set={"n": 2})
        found = lines_of(c, [{"line": 7}])
        assert found[0]["line"] == 7
        c.request("configurationDone")
        c.stopped("entry")
        c.move("continue", "breakpoint")
        assert (c.line(), c.value("pc")) == (7, "2")


def test_a_launch_that_fails(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.rga"
    wrong.write_text("start\n addd r1, {r2}\n finish\n")
    with adapter() as c:
        c.request("initialize", adapterID="retrograd")
        for arguments, message in [
            ({"program": str(wrong)}, "addd"), ({"program": "nothing.rga"}, "nothing.rga"), ({}, "`program` is missing"),
            ({"program": "-"}, "standard input"), ({"program": str(SQUARES), "progam": 1}, "no argument `progam`"),
            ({"program": str(SQUARES), "engine": "steam"}, "steam"), ({"program": str(SQUARES), "args": ["1"]}, "no arguments"),
            ({"program": 5}, "is a string"), ({"program": str(SQUARES), "set": {"zzz": 1}}, "neither a register"),
            ({"program": str(EXAMPLES / "vlad" / "newton.vlad"), "expression": 99}, "expressions"),
        ]:  # fmt: skip
            with pytest.raises(Refused, match=message):
                c.request("launch", **arguments)
        c.request("launch", program=str(SQUARES))
        assert json.dumps(c.request("threads")) == '{"threads": [{"id": 1, "name": "squares.rga"}]}'


@pytest.mark.parametrize("by", ["name", "line"])
def test_a_breakpoint_of_a_function_stops_once_a_call(by: str, tmp_path: Path) -> None:
    """By the name of a recursive function, and at the line that heads it: four calls, in both directions."""
    path = tmp_path / "calls.py"
    path.write_text(
        "from retrograd import reversible\n@reversible\ndef f(o: int, n: int):\n    if n > 0:\n        o += n\n        f(o, n - 1)\n"
        "@reversible\ndef g(o: int, n: int):\n    f(o, n)\n"
    )
    with adapter() as c:
        c.launch(f"{path}:g", configure=False, args=["0", "3"])
        if by == "name":
            c.request("setFunctionBreakpoints", breakpoints=[{"name": "f"}])
        else:
            c.request("setBreakpoints", source={"path": str(path)}, breakpoints=[{"line": 3}])
        reason = "function breakpoint" if by == "name" else "breakpoint"
        c.request("configurationDone")
        c.stopped(reason)
        values = [c.value("n")]
        for _ in range(3):
            c.move("continue", reason)
            values.append(c.value("n"))
        assert values == ["3", "2", "1", "0"]
        for _ in range(3):
            c.move("reverseContinue", reason)
            values.pop()
            assert c.value("n") == values[-1]
        c.move("reverseContinue", "entry")

"""The extension of VS Code: its manifest against the files and the debugger, its package, and its language client in Node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.isa.diagnostics import Diagnostic, Span

from retrograd.cli.commands.debugging import LAUNCH
from retrograd.cli.main import COMMANDS
from retrograd.version import __version__

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
CONTRIBUTES: dict[str, Any] = MANIFEST["contributes"]
SCHEMA = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"


def test_the_manifest() -> None:
    assert MANIFEST["version"] == __version__
    assert {language["id"] for language in CONTRIBUTES["languages"]} == {"rga", "janus", "vlad"}
    paths = [MANIFEST["main"], *(item["path"] for key in ("grammars", "snippets") for item in CONTRIBUTES[key])]
    paths += [item["configuration"] for item in CONTRIBUTES["languages"] if "configuration" in item]
    for path in paths:
        assert (EXTENSION / path).is_file(), path
    for path in EXTENSION.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))


def test_the_debugger_takes_what_the_manifest_offers() -> None:
    """The arguments of `launch` with their types; VS Code itself adds `noDebug`."""
    debugger = CONTRIBUTES["debuggers"][0]
    offered = debugger["configurationAttributes"]["launch"]["properties"]
    types = {name: kind for name, kind in LAUNCH.items() if name != "noDebug"}
    assert {name: item["type"][0] if name == "set" else item["type"] for name, item in offered.items()} == types
    assert offered["stopAtEnd"]["default"] is True
    snippets = [item["body"] for item in debugger["configurationSnippets"]]
    for configuration in (*debugger["initialConfigurations"], *snippets):
        assert configuration["type"] == debugger["type"] == "retrograd"
        assert set(configuration) - {"type", "request", "name"} <= set(LAUNCH)


def test_tasks_are_commands() -> None:
    assert set(CONTRIBUTES["taskDefinitions"][0]["properties"]["command"]["enum"]) <= set(COMMANDS)


def test_the_problem_matcher_reads_our_errors() -> None:
    text = Diagnostic("RG0101", "unknown instruction `mumble`", Span("p.rga", 3, 5, 11), line="    mumble r1").render()
    first, second = (re.compile(item["regexp"]) for item in CONTRIBUTES["problemMatchers"][0]["pattern"])
    lines = text.split("\n")
    head, place = first.match(lines[0]), second.match(lines[1])
    assert head is not None
    assert head.groups() == ("error", "RG0101", "unknown instruction `mumble`")
    assert place is not None
    assert place.groups() == ("p.rga", "3", "5")


def test_snippets_are_programs() -> None:
    """Each snippet, its places filled in, is verified assembly text."""
    snippets = json.loads((EXTENSION / "snippets" / "rga.json").read_text(encoding="utf-8"))
    assert len(snippets) > 3
    for name, snippet in snippets.items():
        body = filled("\n".join(snippet["body"]))
        assert "$" not in body
        text = body if name == "Program" else f"  start\n{body}\n  finish\n"
        if name == "Subroutine":
            text = f"  start\n  call name\n  finish\n{body}\n"
        assert assemble(text).code, name


def filled(body: str) -> str:
    """A snippet with the default of each of its places."""
    defaults = dict(re.findall(r"\$\{(\d+):([^}]*)\}", body))
    return re.sub(r"\$\{(\d+):[^}]*\}|\$(\d+)", lambda found: defaults[found[1] or found[2]], body)


@pytest.fixture
def tool(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("tools/package_extension.py")


def test_the_package(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same bytes each time, all files of the extension, and a manifest that names members of the file."""
    paths = [tmp_path / "a.vsix", tmp_path / "b.vsix"]
    for path in paths:
        tool.package(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with zipfile.ZipFile(paths[0]) as file:
        names = file.namelist()
        assert file.testzip() is None
        manifest = ElementTree.fromstring(file.read("extension.vsixmanifest"))
        types = ElementTree.fromstring(file.read("[Content_Types].xml"))
        assert json.loads(file.read("extension/package.json")) == MANIFEST
    files = {f"extension/{p.relative_to(EXTENSION).as_posix()}" for p in EXTENSION.rglob("*") if p.is_file()}
    assert set(names) == {*files, "extension/LICENSE.txt", "extension.vsixmanifest", "[Content_Types].xml"}
    assert {asset.get("Path") for asset in manifest.iter(f"{SCHEMA}Asset")} <= set(names)
    identity = next(manifest.iter(f"{SCHEMA}Identity"))
    assert (identity.get("Id"), identity.get("Version"), identity.get("Publisher")) == (
        "retrograd",
        __version__,
        "retrograd",
    )
    assert {Path(name).suffix for name in names if name != "[Content_Types].xml"} == {t.get("Extension") for t in types}


SCRIPT = """
const { Client } = require(process.argv[1]);
const text = "  start\\n  addd r1, 5\\n  finish\\n";
let seen;
const diagnostics = new Promise((resolve) => { seen = resolve; });
const client = new Client(process.argv[2], process.argv.slice(3), (method, params) => {
    if (method === "textDocument/publishDiagnostics") seen(params.diagnostics);
}, () => {});
(async () => {
    await client.start(null);
    const uri = "file:///p.rga";
    client.notify("textDocument/didOpen", { textDocument: { uri, languageId: "rga", version: 1, text } });
    const found = await diagnostics;
    const hover = await client.request("textDocument/hover", { textDocument: { uri }, position: { line: 0, character: 4 } });
    console.log(JSON.stringify([found.map((d) => [d.code, d.range.start.line]), hover.contents.value.includes("start")]));
    await client.stop();
    const broken = new Client("no-such-command", [], () => {}, (reason) => console.log(reason));
    await broken.start(null).catch((error) => console.log(error.message));
})();
"""


#: `vscode` as a module whose functions note their calls
ACTIVATION = """
const Module = require("module");
const path = require("path");
const calls = {};
const registered = (name) => (...given) => { calls[name] = given; return { dispose() {} }; };
class DebugAdapterExecutable { constructor(...given) { this.given = given; } }
class ProcessExecution { constructor(...given) { this.given = given; } }
class Task { constructor(...given) { this.given = given; } }
const vscode = {
    DebugAdapterExecutable, ProcessExecution, Task, TaskScope: { Workspace: 2 },
    debug: {
        registerDebugAdapterDescriptorFactory: registered("factory"),
        registerDebugConfigurationProvider: registered("configurations"),
    },
    tasks: { registerTaskProvider: registered("tasks") },
    window: { activeTextEditor: { document: { languageId: "rga" } } },
    workspace: { getConfiguration: () => ({ get: (name) => (name === "command" ? "/bin/retrograd" : false) }) },
};
const load = Module._load;
Module._load = (name, ...more) => (name === "vscode" ? vscode : load(name, ...more));
const context = { subscriptions: [] };
require(path.join(process.argv[1], "extension.js")).activate(context);
const descriptor = calls.factory[1].createDebugAdapterDescriptor({ workspaceFolder: { uri: { fsPath: "/w" } } });
const task = calls.tasks[1].resolveTask({ definition: { type: "retrograd", command: "run", args: ["--set", "n=5"] } });
console.log(JSON.stringify([
    context.subscriptions.length, calls.factory[0], descriptor.given, task.given[4].given, task.given[5],
    calls.configurations[1].resolveDebugConfiguration(undefined, {}).program,
]));
"""


@pytest.mark.long
def test_activation() -> None:
    """The adapter, the tasks and the configuration that the extension gives to VS Code."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the test of the extension's activation needs node")
    done = subprocess.run(
        [node, "-e", ACTIVATION, str(EXTENSION)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    number, kind, adapter, task, matcher, program = json.loads(done.stdout)
    assert (number, kind) == (3, CONTRIBUTES["debuggers"][0]["type"])
    assert adapter == ["/bin/retrograd", ["dap"], {"cwd": "/w"}]
    assert task == ["/bin/retrograd", ["run", "${file}", "--set", "n=5"]]
    assert matcher == f"${CONTRIBUTES['problemMatchers'][0]['name']}"
    assert program == "${file}"


@pytest.mark.long
def test_the_language_client() -> None:
    """The client of the extension against `retrograd lsp`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the test of the extension's language client needs node")
    pytest.importorskip("pygls", reason="the test of the extension's language client needs pygls")
    command = [node, "-e", SCRIPT, str(EXTENSION / "client.js"), sys.executable, "-m", "retrograd.cli.main", "lsp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    assert json.loads(lines[0]) == [[["RG0101", 1]], True], done.stdout + done.stderr
    assert lines[1:] == ["spawn no-such-command ENOENT"] * 2

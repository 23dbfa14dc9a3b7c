// The extension of VS Code: it starts `retrograd dap` for the debugger and `retrograd lsp` for assembly text, and runs tasks.
// It needs no other package.

"use strict";

const vscode = require("vscode");
const language = require("./language");

function command() {
    return vscode.workspace.getConfiguration("retrograd").get("command") || "retrograd";
}

const adapters = {
    createDebugAdapterDescriptor(session) {
        const cwd = session.workspaceFolder?.uri.fsPath;
        return new vscode.DebugAdapterExecutable(command(), ["dap"], cwd ? { cwd } : undefined);
    },
};

const configurations = {
    // F5 without a launch.json: the active file.
    resolveDebugConfiguration(folder, configuration) {
        if (!configuration.type && !configuration.request) {
            const editor = vscode.window.activeTextEditor;
            if (editor?.document.languageId === "rga") {
                return { type: "retrograd", request: "launch", name: "Debug this program", program: "${file}", stopOnEntry: true };
            }
        }
        return configuration;
    },
};

const tasks = {
    provideTasks() {
        return ["run", "verify"].map((name) => task({ type: "retrograd", command: name }));
    },
    resolveTask(found) {
        return task(found.definition);
    },
};

function task(definition) {
    const words = [definition.command, definition.file || "${file}", ...(definition.args || [])];
    const execution = new vscode.ProcessExecution(command(), words);
    return new vscode.Task(definition, vscode.TaskScope.Workspace, definition.command, "retrograd", execution, "$retrograd");
}

function activate(context) {
    context.subscriptions.push(
        vscode.debug.registerDebugAdapterDescriptorFactory("retrograd", adapters),
        vscode.debug.registerDebugConfigurationProvider("retrograd", configurations),
        vscode.tasks.registerTaskProvider("retrograd", tasks),
    );
    if (vscode.workspace.getConfiguration("retrograd").get("languageServer")) {
        language.start(context, command()).catch((error) => vscode.window.showWarningMessage(`retrograd lsp: ${error.message}`));
    }
}

module.exports = { activate };

// Features of assembly text in VS Code, by `retrograd lsp`: diagnostics, hover, definitions, references, symbols, completion.

"use strict";

const vscode = require("vscode");
const { Client } = require("./client");

const SELECTOR = { language: "rga", scheme: "file" };

function range(r) {
    return new vscode.Range(r.start.line, r.start.character, r.end.line, r.end.character);
}

function location(l) {
    return new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
}

function at(document, position) {
    return { textDocument: { uri: document.uri.toString() }, position: { line: position.line, character: position.character } };
}

async function start(context, command) {
    const found = vscode.languages.createDiagnosticCollection("retrograd");
    const onNotification = (method, params) => {
        if (method === "textDocument/publishDiagnostics") {
            found.set(vscode.Uri.parse(params.uri), params.diagnostics.map((d) => {
                // The severities of the protocol begin at 1, those of VS Code at 0.
                const made = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
                made.code = d.code;
                made.source = d.source;
                return made;
            }));
        }
    };
    const client = new Client(command, ["lsp"], onNotification, () => found.clear());
    await client.start(vscode.workspace.workspaceFolders?.[0]?.uri.toString() ?? null);

    const ours = (document) => document.languageId === "rga" && document.uri.scheme === "file";
    const opened = (document) => {
        if (ours(document)) {
            const text = { uri: document.uri.toString(), languageId: "rga", version: document.version, text: document.getText() };
            client.notify("textDocument/didOpen", { textDocument: text });
        }
    };
    const changed = ({ document }) => {
        if (ours(document)) {
            const textDocument = { uri: document.uri.toString(), version: document.version };
            client.notify("textDocument/didChange", { textDocument, contentChanges: [{ text: document.getText() }] });
        }
    };
    const closed = (document) => {
        if (ours(document)) {
            client.notify("textDocument/didClose", { textDocument: { uri: document.uri.toString() } });
        }
    };
    const ask = (name, document, position, more) =>
        client.request(`textDocument/${name}`, { ...at(document, position), ...more });

    vscode.workspace.textDocuments.forEach(opened);
    context.subscriptions.push(
        found,
        { dispose: () => client.stop() },
        vscode.workspace.onDidOpenTextDocument(opened),
        vscode.workspace.onDidChangeTextDocument(changed),
        vscode.workspace.onDidCloseTextDocument(closed),
        vscode.languages.registerHoverProvider(SELECTOR, {
            async provideHover(document, position) {
                const hover = await ask("hover", document, position);
                return hover && new vscode.Hover(new vscode.MarkdownString(hover.contents.value), range(hover.range));
            },
        }),
        vscode.languages.registerDefinitionProvider(SELECTOR, {
            async provideDefinition(document, position) {
                const place = await ask("definition", document, position);
                return place && location(place);
            },
        }),
        vscode.languages.registerReferenceProvider(SELECTOR, {
            async provideReferences(document, position) {
                const places = await ask("references", document, position, { context: { includeDeclaration: true } });
                return (places ?? []).map(location);
            },
        }),
        vscode.languages.registerDocumentSymbolProvider(SELECTOR, {
            async provideDocumentSymbols(document) {
                const uri = document.uri.toString();
                const symbols = await client.request("textDocument/documentSymbol", { textDocument: { uri } });
                return (symbols ?? []).map((s) =>
                    new vscode.DocumentSymbol(s.name, s.detail ?? "", s.kind - 1, range(s.range), range(s.selectionRange)));
            },
        }),
        vscode.languages.registerCompletionItemProvider(SELECTOR, {
            async provideCompletionItems(document, position) {
                const list = await ask("completion", document, position);
                return (list?.items ?? []).map((item) => new vscode.CompletionItem(item.label, item.kind - 1));
            },
        }),
    );
}

module.exports = { start };

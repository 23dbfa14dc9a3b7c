// The script of Microsoft's client for debug adapters. Usage: node script.js PROGRAM_FOLDER
// Each test has an adapter of its own; the first fault ends the script with exit code 1.

"use strict";

const assert = require("assert");
const path = require("path");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

const folder = process.argv[2];
const squares = path.join(folder, "examples", "squares.rga");
const shapes = path.join(folder, "tests", "debug_adapter", "shapes.py");
const shapesArguments = ['{"x": 0.5, "v": [1, 2]}', "[[0.0, 0.0], [0.0, 0.0]]", "3", "True", JSON.stringify(Array(30).fill(0))];
const long = process.argv[3];
const launched = { program: squares, set: { n: 5 } };
const thread = { threadId: 1 };

async function refused(promise, message) {
    await assert.rejects(promise, (error) => message.test(error.message));
}

async function value(client, expression, context = "watch") {
    return (await client.evaluateRequest({ expression, context, frameId: 1 })).body.result;
}

const tests = {
    async "unknown requests have errors"(client) {
        await refused(client.send("illegalRequest"), /there is no request/);
        await refused(client.nextRequest(thread), /no program/);
    },

    async "capabilities"(client) {
        const { body } = await client.initializeRequest();
        for (const name of ["supportsConfigurationDoneRequest", "supportsStepBack", "supportsDataBreakpoints",
            "supportsCancelRequest", "supportsSteppingGranularity", "supportsLogPoints"]) {
            assert.strictEqual(body[name], true, name);
        }
    },

    async "a path format that is unknown is refused"(client) {
        await refused(client.initializeRequest({ adapterID: "retrograd", pathFormat: "url" }), /pathFormat/);
    },

    async "stop on entry"(client) {
        await Promise.all([
            client.configurationSequence(), client.launch({ ...launched, stopOnEntry: true }),
            client.assertStoppedLocation("entry", { path: squares, line: 6 }),
        ]);
    },

    async "a run to its end, twice continued"(client) {
        await Promise.all([client.configurationSequence(), client.launch(launched), client.waitForEvent("stopped")]);
        await Promise.all([client.continueRequest(thread), client.waitForEvent("terminated")]);
    },

    async "a breakpoint of a line, and the way back from it"(client) {
        await client.hitBreakpoint(launched, { path: squares, line: 8 });
        await Promise.all([client.continueRequest(thread), client.assertStoppedLocation("breakpoint", { line: 8 })]);
        assert.strictEqual(await value(client, "i"), "1");
        await Promise.all([client.stepBackRequest(thread), client.assertStoppedLocation("step", { line: 7 })]);
        await Promise.all([client.stepBackRequest(thread), client.assertStoppedLocation("step", { line: 10 })]);
        await Promise.all([client.reverseContinueRequest(thread), client.assertStoppedLocation("breakpoint", { line: 8 })]);
        await Promise.all([client.reverseContinueRequest(thread), client.assertStoppedLocation("entry", { line: 6 })]);
    },

    async "a line without code"(client) {
        await client.hitBreakpoint(launched, { path: squares, line: 2 }, { path: squares, line: 6 }, { line: 6 });
    },

    async "conditions and log messages"(client) {
        const stopped = client.assertStoppedLocation("breakpoint", { path: squares, line: 8 });
        const logged = client.assertOutput("console", "i = 0\ni = 1\ni = 2\n");
        await Promise.all([
            client.waitForEvent("initialized").then(async () => {
                await client.setBreakpointsRequest({
                    source: { path: squares },
                    breakpoints: [{ line: 8, condition: "i == 2" }, { line: 8, logMessage: "i = {i}" }],
                });
                await client.configurationDoneRequest();
            }),
            client.launch(launched), stopped, logged,
        ]);
        assert.strictEqual(await value(client, "sum"), "1");
    },

    async "a breakpoint of a procedure, and one of a word"(client) {
        await Promise.all([
            client.waitForEvent("initialized").then(async () => {
                const { body } = await client.setFunctionBreakpointsRequest({ breakpoints: [{ name: "again" }] });
                assert.strictEqual(body.breakpoints[0].verified, true);
                await client.configurationDoneRequest();
            }),
            client.launch(launched), client.assertStoppedLocation("function breakpoint", { line: 7 }),
        ]);
        await client.setFunctionBreakpointsRequest({ breakpoints: [] });
        const { body } = await client.dataBreakpointInfoRequest({ name: "sum" });
        await client.setDataBreakpointsRequest({ breakpoints: [{ dataId: body.dataId, accessType: "write" }] });
        await Promise.all([client.continueRequest(thread), client.waitForEvent("stopped").then((event) => {
            assert.strictEqual(event.body.reason, "data breakpoint");
            assert.strictEqual(event.body.text, "r2: 0 → 1");
        })]);
        assert.match(await value(client, "why sum"), /mul\.add/);
    },

    async "variables by structure, set and read back"(client) {
        await Promise.all([
            client.configurationSequence(), client.launch({ program: `${shapes}:f`, args: shapesArguments, stopOnEntry: true }),
            client.waitForEvent("stopped"), client.assertOutput("stdout", "the file is executed\n", 20000),
        ]);
        for (const line of [24, 25, 26]) {
            await Promise.all([client.nextRequest(thread), client.assertStoppedLocation("step", { path: shapes, line })]);
        }
        const { scopes } = (await client.scopesRequest({ frameId: 1 })).body;
        const of = async (number) => (await client.variablesRequest({ variablesReference: number })).body.variables;
        const variables = await of(scopes[0].variablesReference);
        const m = variables.find((v) => v.name === "m");
        const row = (await of(m.variablesReference))[0].variablesReference;
        const { body } = await client.setVariableRequest({ variablesReference: row, name: "[1]", value: "7.25" });
        assert.strictEqual(body.value, "7.25");
        assert.strictEqual(await value(client, "m"), "[[0, 7.25], [0, 0]]");
    },

    async "a long run is paused, and cancelled"(client) {
        await Promise.all([client.configurationSequence(), client.launch({ program: long, set: { n: 1e15 } }), client.waitForEvent("process")]);
        await refused(client.stackTraceRequest(thread), /the program runs/);
        await Promise.all([client.pauseRequest(thread), client.waitForEvent("stopped")]);
        const [response] = await Promise.all([client.continueRequest(thread)]);
        await Promise.all([client.send("cancel", { requestId: response.request_seq }), client.waitForEvent("stopped")]);
        await Promise.all([client.send("terminate"), client.waitForEvent("terminated")]);
    },

    async "a trap"(client) {
        await Promise.all([
            client.configurationSequence(), client.launch({ program: process.argv[4] }),
            client.assertStoppedLocation("exception", { line: 3 }),
        ]);
        assert.strictEqual((await client.exceptionInfoRequest(thread)).body.exceptionId, "RG0407");
    },

    async "disassembly, threads, completions"(client) {
        await Promise.all([client.configurationSequence(), client.launch(launched), client.waitForEvent("stopped")]);
        const { instructions } = (await client.disassembleRequest({ memoryReference: "0x0", instructionCount: 3 })).body;
        assert.deepStrictEqual(instructions.map((i) => i.instruction).slice(0, 1), ["start"]);
        assert.strictEqual((await client.threadsRequest()).body.threads.length, 1);
        assert.ok((await client.completionsRequest({ text: "wh", column: 3 })).body.targets.some((t) => t.label === "why"));
        const [stopped] = await Promise.all([client.waitForEvent("stopped"), value(client, "turn", "repl")]);
        assert.strictEqual(stopped.body.reason, "goto");
    },
};

(async () => {
    for (const [name, test] of Object.entries(tests)) {
        const client = new DebugClient("retrograd", "dap", "retrograd", undefined, true);
        client.defaultTimeout = 20000;
        await client.start();
        await test(client).catch((error) => {
            console.error(`${name}: ${error.stack}`);
            process.exit(1);
        });
        await client.stop();
        console.log(`ok ${name}`);
    }
    process.exit(0);
})();

// A client of the Language Server Protocol for one server on standard streams: requests, notifications, and the end of the server.
// It knows nothing of VS Code, and is tested in plain Node.

"use strict";

const { spawn } = require("child_process");

class Client {
    // onNotification(method, params) receives the messages of the server; onEnd(reason) its end.
    constructor(command, args, onNotification, onEnd) {
        this.next = 1;
        this.waiting = new Map();
        this.buffer = Buffer.alloc(0);
        this.onNotification = onNotification;
        this.process = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
        this.ended = false;
        const end = (reason) => {
            if (this.ended) {
                return;
            }
            this.ended = true;
            for (const { reject } of this.waiting.values()) {
                reject(new Error(reason));
            }
            this.waiting.clear();
            onEnd(reason);
        };
        this.process.on("error", (error) => end(error.message));
        this.process.on("exit", (code) => end(`the language server ended with exit code ${code}`));
        this.process.stdin.on("error", () => {});
        this.process.stdout.on("data", (data) => this.receive(data));
    }

    send(message) {
        if (this.ended) {
            return;
        }
        const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }), "utf8");
        this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
        this.process.stdin.write(body);
    }

    notify(method, params) {
        this.send({ method, params });
    }

    request(method, params) {
        if (this.ended) {
            return Promise.reject(new Error("the language server has ended"));
        }
        const id = this.next++;
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { resolve, reject });
            this.send({ id, method, params });
        });
    }

    receive(data) {
        this.buffer = Buffer.concat([this.buffer, data]);
        for (;;) {
            const head = this.buffer.indexOf("\r\n\r\n");
            if (head < 0) {
                return;
            }
            const found = /Content-Length: (\d+)/i.exec(this.buffer.toString("ascii", 0, head));
            const length = found ? Number(found[1]) : 0;
            if (this.buffer.length < head + 4 + length) {
                return;
            }
            const body = this.buffer.toString("utf8", head + 4, head + 4 + length);
            this.buffer = this.buffer.subarray(head + 4 + length);
            if (body) {
                this.dispatch(JSON.parse(body));
            }
        }
    }

    dispatch(message) {
        if (message.method !== undefined) {
            if (message.id === undefined) {
                this.onNotification(message.method, message.params);
            } else {
                this.send({ id: message.id, result: null });
            }
            return;
        }
        const waiting = this.waiting.get(message.id);
        this.waiting.delete(message.id);
        if (waiting) {
            if (message.error) {
                waiting.reject(new Error(message.error.message));
            } else {
                waiting.resolve(message.result);
            }
        }
    }

    async start(rootUri) {
        await this.request("initialize", { processId: process.pid, rootUri, capabilities: {} });
        this.notify("initialized", {});
    }

    async stop() {
        if (!this.ended) {
            await this.request("shutdown", null).catch(() => {});
            this.notify("exit", null);
        }
    }
}

module.exports = { Client };

// A mudaxd of its own for each file of tests, and what they all do with it.
"use strict";
const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { after, before } = require("node:test");

const settings = { region: "us-east-1", credentials: { accessKeyId: "nobody", secretAccessKey: "checks" } };
const range = (count, each) => Array.from({ length: count }, (_, number) => each(number));

function start() {
    const daemon = spawn(process.env.MUDAXD, ["--listen", "http://127.0.0.1:0", "--store", "memory:", "--cache-memory", "32M",
                                              "--store-memory", "32M"], { stdio: ["ignore", "pipe", "pipe"] });
    return new Promise((resolve, reject) => {
        let log = "";
        const read = (text) => {
            log += text;
            const port = /url="http:\/\/127\.0\.0\.1:0" port=(\d+)/.exec(log);
            if (port) resolve({ daemon, url: `http://127.0.0.1:${port[1]}` });
        };
        daemon.stdout.on("data", read);
        daemon.stderr.on("data", read);
        daemon.on("exit", () => reject(new Error(`mudaxd did not start:\n${log}`)));
    });
}

// stage(open): `open(url)` is called before the tests of a file, its result is what they share.
function stage(open) {
    const shared = {};
    let running;
    before(async () => {
        running = await start();
        Object.assign(shared, await open(running.url));
    });
    after(() => {
        if (shared.client && shared.client.destroy) shared.client.destroy();
        running.daemon.kill();
    });
    return shared;
}

// Parameters of CreateTable. keys and those of indexes: "PK:S SK:N".
function definition(name, keys, indexes = {}) {
    const types = {};
    const schema = (text) => text.split(" ").map((word, place) => {
        const [attribute, type] = word.split(":");
        types[attribute] = type;
        return { AttributeName: attribute, KeyType: place ? "RANGE" : "HASH" };
    });
    const made = { TableName: name, BillingMode: "PAY_PER_REQUEST", KeySchema: schema(keys) };
    for (const [index, { keys: own, local, project = "ALL", only }] of Object.entries(indexes)) {
        const kind = local ? "LocalSecondaryIndexes" : "GlobalSecondaryIndexes";
        made[kind] = made[kind] || [];
        made[kind].push({ IndexName: index, KeySchema: schema(own),
                          Projection: { ProjectionType: project, ...(only ? { NonKeyAttributes: only } : {}) } });
    }
    made.AttributeDefinitions = Object.entries(types).map(([attribute, type]) => ({ AttributeName: attribute, AttributeType: type }));
    return made;
}

// The error that a promise ends with, which must have that name.
async function refused(name, promise) {
    let error;
    try {
        await promise;
    } catch (caught) {
        error = caught;
    }
    assert.equal(error && (error.name === "Error" ? error.code : error.name), name, error && error.stack);
    return error;
}

module.exports = { definition, range, refused, settings, stage };

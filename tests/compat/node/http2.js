// HTTP/2 as a client uses it that puts everything on one connection.

import assert from "node:assert/strict";
import { connect as h2connect } from "node:http2";
import { connect as tlsConnect } from "node:tls";
import { Inbox, TOKEN, URL, configMaps, create, remove, run, suite, test, within } from "./suite.js";

suite("HTTP/2");

async function session() {
  const made = h2connect(URL);
  await within(5_000, "connection", new Promise((resolve, reject) => {
    made.once("connect", resolve);
    made.once("error", reject);
  }));
  return made;
}

function send(connection, path, { method = "GET", body } = {}) {
  const headers = { ":path": path, ":method": method, authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const stream = connection.request(headers);
  const lines = new Inbox();
  let text = "";
  let status;
  stream.setEncoding("utf8");
  stream.on("response", (answer) => { status = answer[":status"]; });
  const ended = new Promise((resolve, reject) => {
    stream.on("error", reject);
    stream.on("end", () => resolve({ status, text }));
  });
  ended.catch(() => {});
  let rest = "";
  stream.on("data", (chunk) => {
    text += chunk;
    const parts = (rest + chunk).split("\n");
    rest = parts.pop();
    parts.filter(Boolean).forEach((line) => lines.put(JSON.parse(line)));
  });
  if (body) stream.write(JSON.stringify(body));
  stream.end();
  return { stream, ended, lines };
}

const watch = (namespace, more = "") => `${configMaps(namespace)}?watch=true${more}`;

test("the server offers h2 first and http/1.1 too", async () => {
  const { hostname, port } = new globalThis.URL(URL);
  const chosen = (offers) => new Promise((resolve, reject) => {
    const socket = tlsConnect({ host: hostname, port, ALPNProtocols: offers }, () => {
      resolve(socket.alpnProtocol);
      socket.destroy();
    });
    socket.on("error", reject);
  });
  assert.equal(await chosen(["http/1.1", "h2"]), "h2");
  assert.equal(await chosen(["http/1.1"]), "http/1.1");
});

test("writes, lists and watches share a connection", async (namespace) => {
  const connection = await session();
  const watched = send(connection, watch(namespace));
  const made = await send(connection, configMaps(namespace), { method: "POST", body: { metadata: { name: "a" } } }).ended;
  assert.equal(made.status, 201);
  assert.equal((await watched.lines.next()).object.metadata.name, "a");
  const list = await send(connection, configMaps(namespace)).ended;
  assert.equal(JSON.parse(list.text).items.length, 1);
  connection.destroy();
});

test("a hundred watches on one connection all see a change", async (namespace) => {
  const connection = await session();
  const watches = Array.from({ length: 100 }, () => send(connection, watch(namespace)));
  await create(namespace, "a");
  for (const { lines } of watches) assert.equal((await lines.next()).object.metadata.name, "a");
  connection.destroy();
});

test("a watch that nobody reads does not hold up the others", async (namespace) => {
  const connection = await session();
  const stalled = send(connection, watch(namespace));
  stalled.stream.pause();
  const read = send(connection, watch(namespace));
  const text = "x".repeat(100_000);
  // More than any window for one stream holds.
  for (let number = 0; number < 30; number += 1) await create(namespace, `c${number}`, { data: { text } });
  for (let number = 0; number < 30; number += 1) {
    assert.equal((await read.lines.next(`event ${number}`)).object.metadata.name, `c${number}`);
  }
  stalled.stream.resume();
  for (let number = 0; number < 30; number += 1) {
    assert.equal((await stalled.lines.next(`late event ${number}`)).object.metadata.name, `c${number}`);
  }
  connection.destroy();
});

test("a watch that is given up leaves the connection as it was", async (namespace) => {
  const connection = await session();
  const given = send(connection, watch(namespace));
  await create(namespace, "a");
  await given.lines.next();
  given.stream.close();
  const kept = send(connection, watch(namespace));
  await kept.lines.next();
  await remove(namespace, "a");
  assert.equal((await kept.lines.next()).type, "DELETED");
  connection.destroy();
});

test("a watch that is over ends its stream and nothing else", async (namespace) => {
  const connection = await session();
  const short = send(connection, watch(namespace, "&timeoutSeconds=1"));
  const { status } = await short.ended;
  assert.equal(status, 200);
  assert.equal((await send(connection, "/healthz").ended).text, "ok");
  connection.destroy();
});

await run();

// A watch as a page in a browser opens it: with the standard's WebSocket, and all that it can and cannot send.

import assert from "node:assert/strict";
import { WebSocket } from "undici";
import { Inbox, TOKEN, URL, configMaps, create, merge, remove, run, suite, test } from "./suite.js";

suite("browser");

const ORIGIN = "https://console.example.org";
const bearer = `base64url.bearer.authorization.k8s.io.${Buffer.from(TOKEN).toString("base64url")}`;

// A browser sets the page's origin and nothing else; `headers` is for what only other clients can send.
function open(path, { protocols = [bearer, "v1.keepwatch.example"], origin = ORIGIN, headers = {} } = {}) {
  const address = URL.replace("https:", "wss:") + path;
  const socket = new WebSocket(address, { protocols, headers: { ...(origin && { origin }), ...headers } });
  socket.binaryType = "arraybuffer";
  const inbox = new Inbox();
  socket.onmessage = ({ data }) => inbox.put(data);
  const closed = new Promise((resolve) => { socket.onclose = resolve; });
  const opened = new Promise((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = ({ error, message }) => reject(error ?? new Error(message));
  });
  opened.catch(() => {});
  return { socket, opened, closed, inbox };
}

const event = (message) => {
  const { type, object } = JSON.parse(message);
  return `${type} ${object.metadata.name}`;
};

const watch = (namespace, more = "") => `${configMaps(namespace)}?watch=true${more}`;

test("a watch sends each event as a message of text", async (namespace) => {
  await create(namespace, "a");
  const { socket, opened, closed, inbox } = open(watch(namespace));
  await opened;
  const first = await inbox.next();
  assert.equal(typeof first, "string");
  assert.equal(event(first), "ADDED a");
  await merge(namespace, "a", { data: { x: "1" } });
  await remove(namespace, "a");
  assert.deepEqual([event(await inbox.next()), event(await inbox.next())], ["MODIFIED a", "DELETED a"]);
  socket.close(1000);
  const { wasClean } = await closed;
  assert.ok(wasClean);
});

test("the token goes as a subprotocol, and the other one is chosen", async (namespace) => {
  const { socket, opened } = open(watch(namespace));
  await opened;
  assert.equal(socket.protocol, "v1.keepwatch.example");
  socket.close();
});

test("a wrong token and a lone one are refused", async (namespace) => {
  const wrong = bearer.replace(/[^.]+$/, Buffer.from("wrong").toString("base64url"));
  for (const protocols of [[wrong, "v1.keepwatch.example"], [bearer]]) {
    await assert.rejects(open(watch(namespace), { protocols }).opened);
  }
});

test("a page of any origin may watch with a token, but there must be an origin", async (namespace) => {
  const { socket, opened } = open(watch(namespace), { origin: "https://elsewhere.example" });
  await opened;
  socket.close();
  await assert.rejects(open(watch(namespace), { origin: "" }).opened);
  await assert.rejects(open(watch(namespace), { origin: "null" }).opened);
});

test("protobuf comes as messages of bytes", async (namespace) => {
  await create(namespace, "a");
  const { socket, opened, inbox } = open(watch(namespace), { headers: { accept: "application/vnd.kubernetes.protobuf" } });
  await opened;
  const message = await inbox.next();
  assert.ok(message instanceof ArrayBuffer);
  const text = Buffer.from(message).toString("latin1");
  assert.match(text, /ADDED/);
  assert.match(text, /k8s\0/);
  assert.match(text, /ConfigMap/);
  socket.close();
});

test("a watch goes on where the last one ended, and repeats nothing", async (namespace) => {
  await create(namespace, "a");
  const first = open(watch(namespace));
  const seen = JSON.parse(await first.inbox.next());
  first.socket.close();
  await first.closed;
  await create(namespace, "b");
  await remove(namespace, "a");
  const second = open(watch(namespace, `&resourceVersion=${seen.object.metadata.resourceVersion}`));
  assert.deepEqual([event(await second.inbox.next()), event(await second.inbox.next())], ["ADDED b", "DELETED a"]);
  assert.equal(second.inbox.left, 0);
  second.socket.close();
});

test("a watch that is over closes the connection in good order", async (namespace) => {
  const { opened, closed } = open(watch(namespace, "&timeoutSeconds=1"));
  await opened;
  const { wasClean, code } = await closed;
  assert.ok(wasClean, `closed with ${code}`);
});

test("a watch that fails says so in a message", async (namespace) => {
  const { opened, inbox } = open(watch(namespace, "&resourceVersion=999999999&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"));
  await opened.then(async () => {
    const { type, object } = JSON.parse(await inbox.next());
    assert.deepEqual([type, object.kind], ["ERROR", "Status"]);
  });
});

test("what a page sends is ignored, and large events arrive whole", async (namespace) => {
  const { socket, opened, inbox } = open(watch(namespace));
  await opened;
  socket.send("nobody reads this");
  socket.send(new Uint8Array(70_000));
  const text = "é".repeat(200_000);
  await create(namespace, "large", { data: { text } });
  assert.equal(JSON.parse(await inbox.next()).object.data.text, text);
  socket.close();
});

test("a page may send plain requests from an origin that is allowed", async (namespace) => {
  const headers = (origin) => ({ Origin: origin, Authorization: `Bearer ${TOKEN}` });
  const allowed = await fetch(URL + configMaps(namespace), { headers: headers(ORIGIN) });
  assert.equal(allowed.headers.get("access-control-allow-origin"), ORIGIN);
  const other = await fetch(URL + configMaps(namespace), { headers: headers("https://elsewhere.example") });
  assert.equal(other.headers.get("access-control-allow-origin"), null);
  const preflight = await fetch(URL + configMaps(namespace), { method: "OPTIONS", headers: {
    Origin: ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type" } });
  assert.equal(preflight.status, 204);
  assert.match(preflight.headers.get("access-control-allow-methods"), /POST/);
  assert.match(preflight.headers.get("access-control-allow-headers"), /Authorization/i);
});

await run();

// @kubernetes/client-node: its typed calls, its object API, its watch and its informer, over HTTP/1.1.

import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { CoreV1Api, KubeConfig, KubernetesObjectApi, PatchStrategy, Watch, makeInformer, setHeaderOptions } from "@kubernetes/client-node";
import { Inbox, configMaps, create, merge, remove, run, suite, test } from "./suite.js";

suite("client-node");

const config = new KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(CoreV1Api);

// An informer on config maps whose events arrive as "add name" and the like.
function informer(namespace, { kubeConfig = config, labelSelector } = {}) {
  const api = kubeConfig.makeApiClient(CoreV1Api);
  const list = () => api.listNamespacedConfigMap({ namespace, labelSelector });
  const made = makeInformer(kubeConfig, configMaps(namespace), list, labelSelector);
  const inbox = new Inbox();
  for (const event of ["add", "update", "delete"]) {
    made.on(event, (object) => inbox.put(`${event} ${object.metadata.name}`));
  }
  made.on("error", (error) => inbox.put(`error ${error.message ?? error}`));
  return { informer: made, inbox, names: () => made.list().map((object) => object.metadata.name).sort() };
}

test("typed calls create, read, change and delete", async (namespace) => {
  const body = { metadata: { name: "a" }, data: { x: "1" } };
  const made = await core.createNamespacedConfigMap({ namespace, body });
  assert.ok(made.metadata.creationTimestamp instanceof Date);
  made.data.x = "2";
  await core.replaceNamespacedConfigMap({ name: "a", namespace, body: made });
  await assert.rejects(core.replaceNamespacedConfigMap({ name: "a", namespace, body: made }), { code: 409 });
  await core.patchNamespacedConfigMap({ name: "a", namespace, body: [{ op: "add", path: "/data/y", value: "3" }] },
    setHeaderOptions("Content-Type", PatchStrategy.JsonPatch));
  assert.deepEqual((await core.readNamespacedConfigMap({ name: "a", namespace })).data, { x: "2", y: "3" });
  await core.deleteNamespacedConfigMap({ name: "a", namespace });
  await assert.rejects(core.readNamespacedConfigMap({ name: "a", namespace }), { code: 404 });
});

test("a list is read in pages", async (namespace) => {
  for (const name of ["a", "b", "c"]) await create(namespace, name);
  const first = await core.listNamespacedConfigMap({ namespace, limit: 2 });
  const second = await core.listNamespacedConfigMap({ namespace, limit: 2, _continue: first.metadata._continue });
  assert.deepEqual([...first.items, ...second.items].map((item) => item.metadata.name), ["a", "b", "c"]);
  assert.equal(first.metadata.resourceVersion, second.metadata.resourceVersion);
});

test("the object API finds out by itself where a kind is served", async (namespace) => {
  const objects = KubernetesObjectApi.makeApiClient(config);
  const spec = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", namespace }, spec: {
    selector: { matchLabels: { app: "web" } },
    template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "a", image: "a:1" }] } },
  } };
  await objects.create(spec);
  const patch = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", namespace }, spec: { replicas: 3 } };
  assert.equal((await objects.patch(patch)).spec.replicas, 3);
  assert.equal((await objects.list("apps/v1", "Deployment", namespace)).items.length, 1);
  await objects.delete(spec);
});

test("a watch sees each change and can be ended", async (namespace) => {
  const inbox = new Inbox();
  const done = new Inbox();
  const controller = await new Watch(config).watch(configMaps(namespace), { allowWatchBookmarks: true },
    (type, object) => type === "BOOKMARK" || inbox.put(`${type} ${object.metadata.name}`), (error) => done.put(error));
  await create(namespace, "a");
  await merge(namespace, "a", { data: { x: "1" } });
  await remove(namespace, "a");
  for (const expected of ["ADDED a", "MODIFIED a", "DELETED a"]) assert.equal(await inbox.next(expected), expected);
  controller.abort();
  await done.next("end of the watch");
});

test("an informer sees what is there and then what changes", async (namespace) => {
  await create(namespace, "a");
  const { informer: watched, inbox, names } = informer(namespace);
  await watched.start();
  assert.equal(await inbox.next(), "add a");
  await create(namespace, "b");
  assert.equal(await inbox.next(), "add b");
  await merge(namespace, "b", { data: { x: "1" } });
  assert.equal(await inbox.next(), "update b");
  assert.equal(watched.get("b", namespace).data.x, "1");
  await remove(namespace, "a");
  assert.equal(await inbox.next(), "delete a");
  assert.deepEqual(names(), ["b"]);
  await watched.stop();
});

test("an informer with a selector sees objects come and go by their labels", async (namespace) => {
  const { informer: watched, inbox, names } = informer(namespace, { labelSelector: "app=web" });
  await watched.start();
  await create(namespace, "a");
  await merge(namespace, "a", { metadata: { labels: { app: "web" } } });
  assert.equal(await inbox.next(), "add a");
  await merge(namespace, "a", { metadata: { labels: { app: "db" } } });
  assert.equal(await inbox.next(), "delete a");
  assert.deepEqual(names(), []);
  await watched.stop();
});

test("an informer whose connection is cut ends up with what there is", async (namespace) => {
  const wire = await cuttableWire(new URL(config.getCurrentCluster().server));
  const throughWire = new KubeConfig();
  throughWire.loadFromString(config.exportConfig());
  throughWire.clusters = throughWire.clusters.map((cluster) => ({ ...cluster, server: wire.url }));
  for (const name of ["a", "b"]) await create(namespace, name);
  const { informer: watched, inbox, names } = informer(namespace, { kubeConfig: throughWire });
  await watched.start();
  assert.deepEqual([await inbox.next(), await inbox.next()], ["add a", "add b"]);
  // The connection of the list may still be open and idle; the watch is what is to be cut.
  await create(namespace, "c");
  assert.equal(await inbox.next(), "add c");
  wire.cut();
  await create(namespace, "d");
  await remove(namespace, "a");
  assert.match(await inbox.next("error"), /^error /);
  await watched.start();
  const seen = [];
  while (names().join() !== "b,c,d" || !seen.includes("add d")) seen.push(await inbox.next(`b, c and d; saw ${seen}`));
  assert.ok(!seen.includes("add b") && !seen.includes("add c"), `saw ${seen}`);
  await watched.stop();
  wire.close();
});

// Passes bytes on to the server until it is cut; it can be used again afterwards.
async function cuttableWire(server) {
  const sockets = new Set();
  const listener = createServer((near) => {
    const far = connect(Number(server.port), server.hostname);
    for (const [from, to] of [[near, far], [far, near]]) {
      sockets.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => { sockets.delete(from); to.destroy(); });
    }
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return {
    url: `https://127.0.0.1:${listener.address().port}`,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    close: () => { listener.close(); sockets.forEach((socket) => socket.destroy()); },
  };
}

await run();

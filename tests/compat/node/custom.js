// @kubernetes/client-node on custom resources: its CustomObjectsApi, its object API, its watch and its informer.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ApiextensionsV1Api, CustomObjectsApi, KubeConfig, KubernetesObjectApi, PatchStrategy, Watch, loadYaml, makeInformer, setHeaderOptions } from "@kubernetes/client-node";
import { Inbox, run, suite, test } from "./suite.js";

suite("client-node custom");

const config = new KubeConfig();
config.loadFromDefault();
const objects = config.makeApiClient(CustomObjectsApi);
const definitions = config.makeApiClient(ApiextensionsV1Api);
const definition = readFileSync(process.env.KEEPWATCH_DATABASE_YAML, "utf8");
const merge = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);

const group = (namespace) => `${namespace}.example.org`;
const collection = (namespace) => ({ group: group(namespace), version: "v1", namespace, plural: "databases" });
const path = (namespace) => `/apis/${group(namespace)}/v1/namespaces/${namespace}/databases`;
const database = (namespace, name, spec = {}) =>
  ({ apiVersion: `${group(namespace)}/v1`, kind: "Database", metadata: { name, namespace }, spec: { engine: "postgres", ...spec } });
const create = (namespace, name, spec) =>
  objects.createNamespacedCustomObject({ ...collection(namespace), body: database(namespace, name, spec) });
const change = (namespace, name, body) => objects.patchNamespacedCustomObject({ ...collection(namespace), name, body }, merge);
const remove = (namespace, name) => objects.deleteNamespacedCustomObject({ ...collection(namespace), name });

async function define(namespace) {
  await definitions.createCustomResourceDefinition({ body: loadYaml(definition.replaceAll("NS", namespace)) });
  const name = `databases.${group(namespace)}`;
  const established = (found) => found.status?.conditions?.some((each) => each.type === "Established" && each.status === "True");
  await until(async () => established(await definitions.readCustomResourceDefinition({ name })));
  // kube-apiserver asks its first clients to come again a little later.
  await until(() => objects.listNamespacedCustomObject(collection(namespace)).catch((error) => assert.equal(error.code, 429)));
}

async function until(question) {
  while (!(await question())) await new Promise((resolve) => setTimeout(resolve, 20));
}

test("a definition's schema is read back as it was written", async (namespace) => {
  await define(namespace);
  const found = await definitions.readCustomResourceDefinition({ name: `databases.${group(namespace)}` });
  const { spec } = found.spec.versions[0].schema.openAPIV3Schema.properties;
  assert.deepEqual(spec.properties.engine._enum, ["postgres", "mysql", "sqlite"]);
  assert.deepEqual(spec.properties.users.x_kubernetes_list_map_keys, ["name"]);
  assert.equal(spec.x_kubernetes_validations[0].message, "sqlite has one replica");
});

test("objects are created, read, changed and deleted", async (namespace) => {
  await define(namespace);
  const made = await create(namespace, "a", { limits: { memory: "1Gi", cpus: 2 } });
  assert.deepEqual(made.spec, { engine: "postgres", replicas: 1, limits: { memory: "1Gi", cpus: 2 } });
  made.spec.replicas = 2;
  await objects.replaceNamespacedCustomObject({ ...collection(namespace), name: "a", body: made });
  await assert.rejects(objects.replaceNamespacedCustomObject({ ...collection(namespace), name: "a", body: made }), { code: 409 });
  const json = setHeaderOptions("Content-Type", PatchStrategy.JsonPatch);
  const body = [{ op: "test", path: "/spec/replicas", value: 2 }, { op: "remove", path: "/spec/limits/cpus" }];
  assert.deepEqual((await objects.patchNamespacedCustomObject({ ...collection(namespace), name: "a", body }, json)).spec.limits, { memory: "1Gi" });
  await objects.patchNamespacedCustomObjectStatus({ ...collection(namespace), name: "a", body: { status: { replicas: 2 }, spec: { replicas: 9 } } }, merge);
  await objects.patchNamespacedCustomObjectScale({ ...collection(namespace), name: "a", body: { spec: { replicas: 4 } } }, merge);
  const found = await objects.getNamespacedCustomObject({ ...collection(namespace), name: "a" });
  assert.deepEqual([found.spec.replicas, found.status], [4, { replicas: 2 }]);
  await assert.rejects(change(namespace, "a", { spec: { engine: "oracle" } }), (error) => {
    assert.equal(error.code, 422);
    assert.match(JSON.parse(error.body).message, /spec\.engine: Unsupported value: "oracle": supported values: "postgres", "mysql", "sqlite"/);
    return true;
  });
  await remove(namespace, "a");
  await assert.rejects(objects.getNamespacedCustomObject({ ...collection(namespace), name: "a" }), { code: 404 });
});

test("a list is read in pages and by fields", async (namespace) => {
  await define(namespace);
  for (const name of ["a", "b", "c"]) await create(namespace, name, { engine: name === "b" ? "mysql" : "postgres" });
  const first = await objects.listNamespacedCustomObject({ ...collection(namespace), limit: 2 });
  const second = await objects.listNamespacedCustomObject({ ...collection(namespace), limit: 2, _continue: first.metadata.continue });
  assert.deepEqual([...first.items, ...second.items].map((item) => item.metadata.name), ["a", "b", "c"]);
  const chosen = await objects.listNamespacedCustomObject({ ...collection(namespace), fieldSelector: "spec.engine=mysql" });
  assert.deepEqual(chosen.items.map((item) => item.metadata.name), ["b"]);
});

test("the object API finds out by itself where a custom kind is served", async (namespace) => {
  await define(namespace);
  const api = KubernetesObjectApi.makeApiClient(config);
  await api.create(database(namespace, "a"));
  assert.equal((await api.patch(database(namespace, "a", { replicas: 3 }), undefined, undefined, undefined, undefined, PatchStrategy.MergePatch)).spec.replicas, 3);
  assert.equal((await api.list(`${group(namespace)}/v1`, "Database", namespace)).items.length, 1);
  await api.delete(database(namespace, "a"));
});

test("a watch sees each change of a custom object", async (namespace) => {
  await define(namespace);
  const inbox = new Inbox();
  const done = new Inbox();
  const { resourceVersion } = (await objects.listNamespacedCustomObject(collection(namespace))).metadata;
  const controller = await new Watch(config).watch(path(namespace), { resourceVersion, fieldSelector: "spec.engine=postgres" },
    (type, object) => inbox.put(`${type} ${object.metadata.name}`), (error) => done.put(error));
  await create(namespace, "a");
  await create(namespace, "b", { engine: "sqlite" });
  await change(namespace, "a", { spec: { replicas: 2 } });
  await change(namespace, "b", { spec: { engine: "postgres" } });
  await change(namespace, "a", { spec: { engine: "sqlite", replicas: 1 } });
  for (const expected of ["ADDED a", "MODIFIED a", "ADDED b", "DELETED a"]) assert.equal(await inbox.next(expected), expected);
  controller.abort();
  await done.next("end of the watch");
});

test("an informer on a custom kind sees what is there and then what changes", async (namespace) => {
  await define(namespace);
  await create(namespace, "a");
  const list = () => objects.listNamespacedCustomObject(collection(namespace));
  const watched = makeInformer(config, path(namespace), list);
  const inbox = new Inbox();
  for (const event of ["add", "update", "delete"]) watched.on(event, (object) => inbox.put(`${event} ${object.metadata.name}`));
  await watched.start();
  assert.equal(await inbox.next(), "add a");
  await create(namespace, "b");
  assert.equal(await inbox.next(), "add b");
  await change(namespace, "b", { spec: { replicas: 2 } });
  assert.equal(await inbox.next(), "update b");
  assert.equal(watched.get("b", namespace).spec.replicas, 2);
  await remove(namespace, "a");
  assert.equal(await inbox.next(), "delete a");
  assert.deepEqual(watched.list().map((object) => object.metadata.name), ["b"]);
  await watched.stop();
});

await run();

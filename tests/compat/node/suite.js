// Cases for node: sentences with a function each, run one after another, each in a namespace of its own.

export const URL = process.env.KEEPWATCH_URL;
export const TOKEN = process.env.KEEPWATCH_TOKEN;
const WAIT_MS = 20_000;

const cases = [];
let suiteName = "";

export function suite(name) {
  suiteName = name;
}

export function test(sentence, run) {
  cases.push({ sentence, run });
}

export async function run() {
  const only = process.env.KEEPWATCH_ONLY ?? "";
  let failed = 0;
  for (const [number, { sentence, run }] of cases.entries()) {
    const name = `${suiteName}: ${sentence}`;
    if (!name.includes(only)) continue;
    try {
      const namespace = `${suiteName.replaceAll(/[^a-z0-9]+/gi, "-").toLowerCase()}-${number}`;
      await request("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
      await within(WAIT_MS, "the end of the case", run(namespace));
      console.log(`ok   ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}\n${String(error.stack ?? error).replaceAll(/^/gm, "       ")}`);
    }
  }
  // Connections that a failed case left open must not keep the program.
  process.exit(failed ? 1 : 0);
}

// A plain request, for what a case needs beside what it is about.
export async function request(method, path, body, contentType = "application/json") {
  const headers = { Authorization: `Bearer ${TOKEN}`, "Content-Type": contentType };
  const answer = await fetch(URL + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export const configMaps = (namespace) => `/api/v1/namespaces/${namespace}/configmaps`;
export const create = (namespace, name, more = {}) =>
  request("POST", configMaps(namespace), { metadata: { name, ...more.metadata }, data: more.data });
export const merge = (namespace, name, change) =>
  request("PATCH", `${configMaps(namespace)}/${name}`, change, "application/merge-patch+json");
export const remove = (namespace, name) => request("DELETE", `${configMaps(namespace)}/${name}`);

export function within(milliseconds, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// What came, to be taken one by one.
export class Inbox {
  #arrived = [];
  #waiting = [];

  put(item) {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#arrived.push(item);
  }

  next(what = "message") {
    if (this.#arrived.length) return Promise.resolve(this.#arrived.shift());
    return within(10_000, what, new Promise((resolve) => this.#waiting.push(resolve)));
  }

  get left() {
    return this.#arrived.length;
  }
}

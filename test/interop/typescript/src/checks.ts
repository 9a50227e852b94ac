// Checks the REST API through the TypeScript client. Reads what to use from standard
// input as JSON and writes a report to standard output that the Go test expects.
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { APIError, Client, type CompileRequest, type TaskRecord } from "./client.js";

interface Input {
  url: string;
  run: string;
  key: string;
  powerless_key: string;
  foreign_task: string;
}

interface Check {
  name: string;
  passed: boolean;
  detail?: string;
}

const input = JSON.parse(await text(process.stdin)) as Input;
const client = new Client({ url: input.url, apiKey: input.key });
const source = `viking://resources/source-${input.run}`;
const unknownTask = `cmp_${"0".repeat(32)}`;
const report: Check[] = [];

async function check(name: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
    report.push({ name, passed: true });
  } catch (error) {
    report.push({ name, passed: false, detail: String(error) });
  }
}

function expect(holds: boolean, saw: unknown): asserts holds {
  if (!holds) throw new Error(`unexpected: ${JSON.stringify(saw)}`);
}

async function expectError(code: string, status: number, work: () => Promise<unknown>): Promise<void> {
  let answer: unknown;
  try {
    answer = await work();
  } catch (error) {
    expect(error instanceof APIError && error.code === code && error.status === status && error.message !== "", error);
    return;
  }
  expect(false, answer);
}

function request(to: string, more: Partial<CompileRequest> = {}): CompileRequest {
  return { from: [source], to: `viking://resources/${to}/${input.run}`, skill: "viking://agent/skills/wiki", ...more };
}

async function until(id: string, ...statuses: string[]): Promise<TaskRecord> {
  for (let tries = 0; tries < 300; tries++) {
    const task = await client.getTask(id);
    expect(task !== null, id);
    if (statuses.includes(task.status)) return task;
    await pause(100);
  }
  throw new Error(`task ${id} did not become ${statuses.join(" or ")}`);
}

async function checkCompile(): Promise<void> {
  const args = { model_name: "m", numbers: [9007199254740991, 0.1], deep: { empty: {} } };
  let quick = "";
  await check("compile answers a pending task", async () => {
    const task = await client.compile(request("quick", { instruction: "Write a wiki.", args }));
    quick = task.task_id;
    expect(task.status === "pending" && task.stage === "queued" && task.resource_id === source, task);
  });
  await check("instruction and args come back as they were sent", async () => {
    const asked = (await client.getTask(quick))?.meta.request;
    expect(asked?.["instruction"] === "Write a wiki.", asked);
    expect(isDeepStrictEqual(asked["args"], args), asked);
  });
  await check("a task completes with its result", async () => {
    const task = await until(quick, "completed");
    expect(task.stage === "completed" && task.result?.["status"] === "ok" && task.error === null, task);
  });
  await check("a completed task can't be cancelled", () =>
    expectError("FAILED_PRECONDITION", 412, () => client.cancelTask(quick)),
  );
  await check("options without a value are not sent", async () => {
    const task = await client.compile(request("bare", { instruction: null, args: {} }));
    const asked = task.meta.request;
    expect(asked !== undefined && !("instruction" in asked) && !("args" in asked), asked);
  });
}

async function checkList(): Promise<void> {
  await check("lists filter by source, type and status", async () => {
    const found = await client.listTasks({ resource_id: source, task_type: "compile", status: "completed" });
    expect(found.length > 0, found);
    expect(found.every((task) => task.resource_id === source && task.status === "completed"), found);
  });
  await check("lists keep to their limit", async () => {
    const found = await client.listTasks({ resource_id: source, status: "", limit: 1 });
    expect(found.length === 1, found);
  });
  await check("a list of nothing is empty", async () => {
    const found = await client.listTasks({ status: "no-such-status" });
    expect(found.length === 0, found);
  });
  await check("a limit out of bounds is an invalid argument", () =>
    expectError("INVALID_ARGUMENT", 400, () => client.listTasks({ limit: 201 })),
  );
}

async function checkCancel(): Promise<void> {
  let slow = "";
  await check("a running task is cancelling once cancelled", async () => {
    slow = (await client.compile(request("slow"))).task_id;
    await until(slow, "running");
    const task = await client.cancelTask(slow);
    expect(task.status === "cancelling", task);
  });
  await check("a cancelled task ends as cancelled", async () => {
    const task = await until(slow, "cancelled");
    expect(task.stage === "cancelled" && task.result === null, task);
  });
  await check("a cancel may be repeated", async () => {
    const task = await client.cancelTask(slow);
    expect(task.status === "cancelled", task);
  });
}

async function checkErrors(): Promise<void> {
  await check("an unknown task is nothing", async () => expect((await client.getTask(unknownTask)) === null, unknownTask));
  await check("a foreign task is nothing", async () => {
    const task = await client.getTask(input.foreign_task);
    expect(task === null, task);
  });
  await check("cancel of an unknown task is not found", () =>
    expectError("NOT_FOUND", 404, () => client.cancelTask(unknownTask)),
  );
  await check("an unknown field is an invalid argument", () =>
    expectError("INVALID_ARGUMENT", 400, () => client.compile(request("extra", { extra: { mode: "fast" } }))),
  );
  await check("a wrong key is unauthenticated", () =>
    expectError("UNAUTHENTICATED", 401, () =>
      new Client({ url: input.url, apiKey: `sk-ar-${"A".repeat(43)}` }).compile(request("wrong-key")),
    ),
  );
  await check("a key without a role is denied", () =>
    expectError("PERMISSION_DENIED", 403, () =>
      new Client({ url: input.url, apiKey: input.powerless_key }).compile(request("powerless")),
    ),
  );
  await check("an idempotency key for another request is a conflict", async () => {
    const keyed = new Client({ url: input.url, apiKey: input.key, headers: { "Idempotency-Key": `interop-${input.run}-0001` } });
    const first = await keyed.compile(request("keyed"));
    const repeat = await keyed.compile(request("keyed"));
    expect(first.task_id === repeat.task_id, repeat);
    await expectError("CONFLICT", 409, () => keyed.compile(request("keyed-otherwise")));
  });
}

async function checkTransport(): Promise<void> {
  await check("the server is healthy", async () => {
    const healthy = await client.health();
    expect(healthy, healthy);
  });
  await check("a profile may be asked for", async () => {
    const found = await new Client({ url: input.url, apiKey: input.key, profile: true }).listTasks({ limit: 1 });
    expect(found.length === 1, found);
  });
  await check("the base URL may end in a slash", async () => {
    const found = await new Client({ url: `${input.url}/`, apiKey: input.key }).listTasks({ limit: 1 });
    expect(found.length === 1, found);
  });
}

await checkEverything();
process.stdout.write(JSON.stringify({ checks: report }));

async function checkEverything(): Promise<void> {
  await checkCompile();
  await checkList();
  await checkCancel();
  await checkErrors();
  await checkTransport();
  await check("an aborted request is aborted", () =>
    expectError("ABORTED", 0, () => client.listTasks({}, AbortSignal.abort())),
  );
  await check("a server that takes too long is a deadline exceeded", checkTimeout);
  await check("no server is unavailable", () =>
    expectError("UNAVAILABLE", 0, () => new Client({ url: "https://localhost:1" }).health()),
  );
}

/** Calls a server that takes connections and never answers. */
async function checkTimeout(): Promise<void> {
  const silent = createServer((socket) => socket.on("error", () => socket.destroy())).listen(0, "localhost");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  try {
    await expectError("DEADLINE_EXCEEDED", 0, () => new Client({ url: `http://localhost:${port}`, timeout: 50 }).health());
  } finally {
    silent.close();
  }
}

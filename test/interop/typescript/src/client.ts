// A client of the compile and tasks API, for Node.js and browsers.

/** What the server says of a task. */
export interface TaskRecord {
  task_id: string;
  status: string;
  stage: string | null;
  resource_id: string | null;
  result: Record<string, unknown> | null;
  error: string | null;
  meta: { request?: Record<string, unknown> } & Record<string, unknown>;
  [key: string]: unknown;
}

/** A source, target and Skill, with options; absent ones are not sent. */
export interface CompileRequest {
  from: string[];
  to: string;
  skill: string;
  instruction?: string | null | undefined;
  args?: Record<string, unknown> | null | undefined;
  /** Further members of the body, which a server refuses if it does not know them. */
  extra?: Record<string, unknown> | undefined;
}

/** Which tasks to list; empty values are not sent. */
export interface ListFilter {
  task_type?: string;
  status?: string;
  resource_id?: string;
  limit?: number;
}

export interface ClientOptions {
  url?: string;
  apiKey?: string;
  headers?: Record<string, string>;
  /** Bounds each request, in milliseconds. */
  timeout?: number;
  /** Asks for a profile with every request. */
  profile?: boolean;
  fetch?: typeof fetch;
}

/** An error of the server, or of the way to it (status 0). */
export class APIError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly details: Record<string, unknown> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "APIError";
  }
}

interface Envelope {
  status?: unknown;
  result?: unknown;
  error?: unknown;
  detail?: unknown;
}

interface Call {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

const defaultURL = "http://localhost:1933";
const defaultTimeout = 60_000;

export class Client {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;
  readonly #profile: boolean;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.#base = (options.url ?? defaultURL).replace(/\/+$/, "");
    this.#headers = { ...options.headers };
    if (options.apiKey) this.#headers["X-API-Key"] = options.apiKey;
    this.#timeout = options.timeout ?? defaultTimeout;
    this.#profile = options.profile ?? false;
    this.#fetch = options.fetch ?? fetch;
  }

  async compile(request: CompileRequest, signal?: AbortSignal): Promise<TaskRecord> {
    const { extra, args, instruction, ...rest } = request;
    const body = {
      ...extra,
      ...rest,
      ...(instruction != null && { instruction }),
      ...(args != null && Object.keys(args).length > 0 && { args }),
    };
    return object(await this.#call("POST", "/api/v1/compile", { body, signal }));
  }

  /** Reads a task, or null when there is none that the caller may see. */
  async getTask(id: string, signal?: AbortSignal): Promise<TaskRecord | null> {
    try {
      return object(await this.#call("GET", `/api/v1/tasks/${encodeURIComponent(id)}`, { signal }));
    } catch (error) {
      if (error instanceof APIError && error.status === 404) return null;
      throw error;
    }
  }

  async listTasks(filter: ListFilter = {}, signal?: AbortSignal): Promise<TaskRecord[]> {
    const found = await this.#call("GET", "/api/v1/tasks", { query: { ...filter }, signal });
    if (!Array.isArray(found)) throw new APIError("UNKNOWN", "the server answered no list");
    return found as TaskRecord[];
  }

  async cancelTask(id: string, signal?: AbortSignal): Promise<TaskRecord> {
    return object(await this.#call("POST", `/api/v1/tasks/${encodeURIComponent(id)}/cancel`, { signal }));
  }

  /** Tells whether the server says that it is well. */
  async health(signal?: AbortSignal): Promise<boolean> {
    const { status } = await this.#exchange("GET", "/health", { signal });
    return status === "ok";
  }

  async #call(method: string, path: string, call: Call): Promise<unknown> {
    return (await this.#exchange(method, path, call)).result;
  }

  async #exchange(method: string, path: string, call: Call): Promise<Envelope> {
    const timeout = AbortSignal.timeout(this.#timeout);
    const aborting = new AbortController();
    const end = () => aborting.abort();
    for (const signal of [timeout, call.signal]) {
      if (signal?.aborted) end();
      signal?.addEventListener("abort", end, { once: true });
    }
    try {
      const response = await this.#fetch(this.#location(path, call.query), this.#init(method, call, aborting.signal));
      return read(response.status, response.ok, await response.text());
    } catch (error) {
      throw explain(error, timeout, call.signal);
    } finally {
      call.signal?.removeEventListener("abort", end);
    }
  }

  #location(path: string, query: Call["query"] = {}): string {
    const values = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null && value !== "") values.set(name, String(value));
    }
    if (this.#profile) values.set("profile", "1");
    const text = values.toString();
    return this.#base + path + (text && `?${text}`);
  }

  #init(method: string, call: Call, signal: AbortSignal): RequestInit {
    if (call.body === undefined) return { method, signal, headers: this.#headers };
    const headers = { ...this.#headers, "Content-Type": "application/json" };
    return { method, signal, headers, body: JSON.stringify(call.body) };
  }
}

/** Takes an answer apart and throws the error that is in it. */
function read(status: number, ok: boolean, text: string): Envelope {
  const envelope = parse(text);
  if (envelope === undefined) {
    if (ok && text === "") return {};
    throw new APIError("UNKNOWN", `the server answered ${status} without JSON`, status);
  }
  if (!envelope.error && envelope.status !== "error" && ok) return envelope;
  const fault = record(envelope.error);
  const detail = typeof envelope.detail === "string" ? envelope.detail : `the server answered ${status}`;
  const message = typeof fault["message"] === "string" ? fault["message"] : detail;
  throw new APIError(typeof fault["code"] === "string" ? fault["code"] : "UNKNOWN", message, status, record(fault["details"]));
}

function parse(text: string): Envelope | undefined {
  try {
    return record(JSON.parse(text) as unknown);
  } catch {
    return undefined;
  }
}

/** Says what kept an answer from coming. */
function explain(error: unknown, timeout: AbortSignal, caller?: AbortSignal): APIError {
  if (error instanceof APIError) return error;
  if (caller?.aborted) return new APIError("ABORTED", "the request was aborted", 0, {}, { cause: error });
  if (timeout.aborted) return new APIError("DEADLINE_EXCEEDED", "the server took too long", 0, {}, { cause: error });
  return new APIError("UNAVAILABLE", "the server can't be reached", 0, {}, { cause: error });
}

function object(value: unknown): TaskRecord {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new APIError("UNKNOWN", "the server answered no task");
  }
  return value as TaskRecord;
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

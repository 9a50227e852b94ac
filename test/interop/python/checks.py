"""Checks the REST API through OpenViking's Python SDK, unmodified.

Reads what to use from standard input as JSON and writes a report to standard output
that the Go test expects. Everything is done twice, with the SDK's synchronous and
with its asynchronous client.
"""

import asyncio
import json
import sys
import time

import openviking_sdk
from openviking_sdk import errors

UNKNOWN_TASK = "cmp_" + "0" * 32
SKILL = "viking://agent/skills/wiki"
# No float64 holds this number.
EXACT = 12345678901234567890


class Blocking:
    """An asynchronous client whose methods wait for their end."""

    def __init__(self, loop, **options):
        self._loop = loop
        self._client = openviking_sdk.AsyncHTTPClient(**options)
        self._loop.run_until_complete(self._client.initialize())

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self._loop.run_until_complete(method(*args, **kwargs))


def synchronous(**options):
    client = openviking_sdk.SyncHTTPClient(**options)
    client.initialize()
    return client


class Checks:
    """The checks of one kind of client."""

    def __init__(self, kind, connect, given, report):
        self.kind, self.given, self.report = kind, given, report
        self.connect = lambda **options: connect(**{"url": given["url"], "api_key": given["key"], **options})
        self.client = self.connect()
        self.source = f"viking://resources/source-{kind}-{given['run']}"
        self.quick = self.slow = None

    def run(self):
        for name, check in (
            ("compile answers a pending task", self.compile),
            ("instruction and args come back as they were sent", self.request),
            ("a task completes with its result", self.complete),
            ("a completed task can't be cancelled", self.cancel_completed),
            ("options without a value are not sent", self.bare),
            ("lists filter by source, type and status", self.filter),
            ("lists keep to their limit", self.limit),
            ("a list of nothing is empty", self.nothing),
            ("a limit out of bounds is an invalid argument", self.bad_limit),
            ("a running task is cancelling once cancelled", self.cancel),
            ("a cancelled task ends as cancelled", self.cancelled),
            ("a cancel may be repeated", self.cancel_again),
            ("an unknown task is nothing", self.unknown),
            ("a foreign task is nothing", self.foreign),
            ("cancel of an unknown task is not found", self.cancel_unknown),
            ("an unknown field is an invalid argument", self.extra),
            ("a wrong key is unauthenticated", self.wrong_key),
            ("a key without a role is denied", self.powerless),
            ("an idempotency key for another request is a conflict", self.conflict),
            ("an invalid URI is told with its reason", self.bad_uri),
            ("the server is healthy", self.health),
            ("a profile may be asked for", self.profile),
            ("the base URL may end in a slash", self.slash),
        ):
            self.check(name, check)
        self.client.close()

    def check(self, name, work):
        result = {"name": f"{self.kind}: {name}", "passed": True}
        try:
            work()
        except Exception as error:  # Whatever it is, the report tells it.
            result.update(passed=False, detail=f"{type(error).__name__}: {error}")
        self.report.append(result)

    def create(self, to, client=None, **options):
        to = f"viking://resources/{to}/{self.kind}-{self.given['run']}"
        return (client or self.client).compile([self.source], to, SKILL, options)

    def until(self, task_id, *statuses):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            task = self.client.get_task(task_id)
            if task["status"] in statuses:
                return task
            time.sleep(0.1)
        raise AssertionError(f"task {task_id} did not become {' or '.join(statuses)}")

    def compile(self):
        args = {"exact": EXACT, "deep": {"list": [1, None, {}]}}
        task = self.create("quick", instruction="Write a wiki.", args=args)
        self.quick = task["task_id"]
        expect(task["status"] == "pending" and task["stage"] == "queued", task)
        expect(task["resource_id"] == self.source, task)

    def request(self):
        asked = self.client.get_task(self.quick)["meta"]["request"]
        expect(asked["instruction"] == "Write a wiki.", asked)
        expect(asked["args"] == {"exact": EXACT, "deep": {"list": [1, None, {}]}}, asked)

    def complete(self):
        task = self.until(self.quick, "completed")
        expect(task["stage"] == "completed" and task["error"] is None, task)
        expect(task["result"]["status"] == "ok", task)

    def cancel_completed(self):
        raises(errors.FailedPreconditionError, "FAILED_PRECONDITION", self.client.cancel_task, self.quick)

    def bare(self):
        asked = self.create("bare")["meta"]["request"]
        expect("instruction" not in asked and "args" not in asked, asked)

    def filter(self):
        found = self.client.list_tasks(task_type="compile", status="completed", resource_id=self.source)
        expect(self.quick in [task["task_id"] for task in found], found)
        expect(all(task["resource_id"] == self.source for task in found), found)
        expect(all(task["status"] == "completed" for task in found), found)

    def limit(self):
        found = self.client.list_tasks(resource_id=self.source, limit=1)
        expect(len(found) == 1, found)

    def nothing(self):
        found = self.client.list_tasks(status="no-such-status")
        expect(found == [], found)

    def bad_limit(self):
        raises(errors.InvalidArgumentError, "INVALID_ARGUMENT", self.client.list_tasks, limit=201)

    def cancel(self):
        self.slow = self.create("slow")["task_id"]
        self.until(self.slow, "running")
        task = self.client.cancel_task(self.slow)
        expect(task["status"] == "cancelling", task)

    def cancelled(self):
        task = self.until(self.slow, "cancelled")
        expect(task["stage"] == "cancelled" and task["result"] is None, task)

    def cancel_again(self):
        task = self.client.cancel_task(self.slow)
        expect(task["status"] == "cancelled", task)

    def unknown(self):
        expect(self.client.get_task(UNKNOWN_TASK) is None, UNKNOWN_TASK)

    def foreign(self):
        task = self.client.get_task(self.given["foreign_task"])
        expect(task is None, task)

    def cancel_unknown(self):
        raises(errors.NotFoundError, "NOT_FOUND", self.client.cancel_task, UNKNOWN_TASK)

    def extra(self):
        raises(errors.InvalidArgumentError, "INVALID_ARGUMENT", self.create, "extra", extra={"mode": "fast"})

    def wrong_key(self):
        client = self.connect(api_key="sk-ar-" + "A" * 43)
        raises(errors.UnauthenticatedError, "UNAUTHENTICATED", self.create, "wrong-key", client)

    def powerless(self):
        client = self.connect(api_key=self.given["powerless_key"])
        raises(errors.PermissionDeniedError, "PERMISSION_DENIED", self.create, "powerless", client)

    def conflict(self):
        client = self.connect(extra_headers={"Idempotency-Key": f"interop-{self.kind}-{self.given['run']}"})
        first, repeat = self.create("keyed", client), self.create("keyed", client)
        expect(first["task_id"] == repeat["task_id"], repeat)
        raises(errors.ConflictError, "CONFLICT", self.create, "keyed-otherwise", client)

    def bad_uri(self):
        error = raises(errors.InvalidURIError, "INVALID_URI", self.client.compile, ["http://x"], "viking://resources/x", SKILL)
        expect(error.details["uri"] == "http://x" and error.details["reason"], error.details)

    def health(self):
        expect(self.client.health() is True, "not healthy")

    def profile(self):
        expect(len(self.connect(profile_enabled=True).list_tasks(limit=1)) == 1, "no list")

    def slash(self):
        expect(len(self.connect(url=self.given["url"] + "/").list_tasks(limit=1)) == 1, "no list")


def expect(holds, saw):
    if not holds:
        raise AssertionError(f"unexpected: {saw}")


def raises(kind, code, work, *args, **kwargs):
    try:
        answer = work(*args, **kwargs)
    except errors.OpenVikingError as error:
        expect(type(error) is kind and error.code == code and error.message, repr(error))
        return error
    raise AssertionError(f"no error but {answer}")


def main():
    given, report = json.load(sys.stdin), []
    Checks("sync", synchronous, given, report).run()
    loop = asyncio.new_event_loop()
    Checks("async", lambda **options: Blocking(loop, **options), given, report).run()
    json.dump({"checks": report}, sys.stdout)


main()

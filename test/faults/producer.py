"""A plain BullMQ producer in Python, as producer.mjs is one in Node: clients that each add one job after another, and
wait for its result by events. Prints of each job whose add returned a line of JSON; ends once its input does.

    python producer.py '{"connection": "unix:///redis.sock", "name": "infer.m", "prefix": "bull", "clients": 2, "model": "m"}'
"""

import asyncio
import json
import sys
import time
import uuid

from bullmq import Queue, QueueEvents

WAIT_LIMIT_S = 60
REOPEN_S = 0.1
# Apart from the values of other sources, so that no answer fits another's question.
FIRST_VALUE = 300_000_000


def tell(message):
    print(json.dumps(message), flush=True)


def now_ms():
    return time.time() * 1000


def number_in(tensor):
    return tensor["data"][0]


class Results:
    """What becomes of jobs, by id. Events end at an error of their connection: then they are opened again."""

    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.waiting = {}
        self.last_id = "0"
        self.task = asyncio.ensure_future(self.follow())

    def expect(self, job_id):
        self.waiting[job_id] = asyncio.get_running_loop().create_future()
        return self.waiting[job_id]

    async def follow(self):
        while True:
            broken = asyncio.get_running_loop().create_future()
            # Shorter than the time that redis-py waits for an answer.
            more = {"lastEventId": self.last_id, "blockingTimeout": 1000}
            events = QueueEvents(self.name, {**self.options, **more})
            events.on("completed", self.ended)
            events.on("failed", self.ended)
            events.on("error", lambda error, broken=broken: broken.done() or broken.set_result(error))
            try:
                await broken
            finally:
                await events.close()
            await asyncio.sleep(REOPEN_S)

    def ended(self, event, event_id):
        self.last_id = event_id
        future = self.waiting.pop(event["jobId"], None)
        if future is None or future.done():
            return
        if "returnvalue" in event:
            future.set_result(event["returnvalue"])
        else:
            future.set_exception(RuntimeError(event["failedReason"]))

    async def close(self):
        self.task.cancel()
        try:
            await self.task
        except asyncio.CancelledError:
            pass


async def outcome(result, value):
    try:
        answer = await asyncio.wait_for(result, WAIT_LIMIT_S)
    except asyncio.TimeoutError:
        return {"outcome": "lost", "text": "no event told its end"}
    except RuntimeError as error:
        return {"outcome": "wrong", "text": str(error)}
    outputs = {tensor["name"]: number_in(tensor) for tensor in answer["outputs"]}
    if outputs["VALUE"] == 2 * value + 1:
        return {"outcome": "right", "pid": outputs["PID"]}
    return {"outcome": "wrong", "text": f"{value}: {answer}"}


async def main(options):
    name, model = options["name"], options["model"]
    queue_options = {"connection": options["connection"], "prefix": options["prefix"]}
    queue = Queue(name, queue_options)
    results = Results(name, queue_options)
    running = True
    sent = 0

    async def client():
        nonlocal sent
        while running:
            sent += 1
            value = FIRST_VALUE + sent
            sent_ms = now_ms()
            # redis-py adds it again where its connection breaks: with an id of its own there is one job all the same.
            job_id = str(uuid.uuid4())
            result = results.expect(job_id)
            data = {"inputs": [{"name": "VALUE", "datatype": "INT32", "shape": [1, 1], "data": [value]}]}
            try:
                await queue.add("anything", data, {"jobId": job_id})
            except Exception as error:
                results.waiting.pop(job_id, None)
                tell({"refused": str(error)})
                await asyncio.sleep(REOPEN_S)
                continue
            end = await outcome(result, value)
            job = {"by": "python", "kind": "Python producer", "model": model, "id": job_id, "value": value}
            tell({"job": {**job, "sentMs": sent_ms, "endedMs": now_ms(), **end}})

    async def until_told():
        nonlocal running
        await asyncio.to_thread(sys.stdin.read)
        running = False

    await asyncio.gather(until_told(), *(client() for _ in range(options["clients"])))
    await results.close()
    await queue.close()


asyncio.run(main(json.loads(sys.argv[1])))

"""Jobs of a plain BullMQ producer in Python, and their results by events and over HTTP.

    pip install bullmq==3.4.4
    python examples/producers/results.py [URL]
"""

import asyncio
import base64
import json
import struct
import sys
import urllib.parse
import urllib.request
import uuid

from bullmq import Queue, QueueEvents

KEPT = {"removeOnComplete": {"age": 600}, "removeOnFail": {"age": 600}}
WAIT_LIMIT_S = 30


def get(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def queue_of(url, model):
    """Name and options of the model's queue."""
    queue = get(f"{url}/v2/models/{model}/jobs/queue")
    redis_url = queue["redis_url"]
    if redis_url.startswith("unix://"):
        # redis-py wants the path as it is, not percent-encoded.
        redis_url = urllib.parse.unquote(redis_url)
    return queue["name"], {"connection": redis_url, "prefix": queue["prefix"]}


def int32(name, values):
    """Little-endian, rows behind each other: the v2 binary form."""
    data = base64.b64encode(struct.pack(f"<{len(values)}i", *values)).decode()
    return {"name": name, "datatype": "INT32", "shape": [1, len(values)], "b64": data}


async def main(url):
    name, options = queue_of(url, "simple")
    queue = Queue(name, options)
    # Shorter than the time that redis-py waits for an answer (5 s): a wait that it cuts off ends only much later.
    events = QueueEvents(name, {**options, "lastEventId": "0", "blockingTimeout": 1000})
    # The ids are chosen before the jobs are added, so that no result comes before somebody waits for it.
    waiting = {}

    def ended(event, _event_id):
        future = waiting.pop(event["jobId"], None)
        if future is None:
            return
        if "returnvalue" in event:
            future.set_result(event["returnvalue"])
        else:
            future.set_exception(RuntimeError(event["failedReason"]))

    events.on("completed", ended)
    events.on("failed", ended)

    async def ask(data, more=None):
        job_id = str(uuid.uuid4())
        waiting[job_id] = asyncio.get_running_loop().create_future()
        result = waiting[job_id]
        await queue.add("any name", data, {**KEPT, "jobId": job_id, **(more or {})})
        return await asyncio.wait_for(result, WAIT_LIMIT_S)

    ones = [1] * 16
    counted = list(range(16))
    answer = await ask({"inputs": [int32("INPUT0", counted), int32("INPUT1", ones)]})
    print("QueueEvents:", *answer["outputs"][0]["data"])

    answer = await ask(
        {"inputs": [int32("INPUT0", counted), int32("INPUT1", ones)], "respond": "b64"},
        {"priority": 5, "delay": 100, "attempts": 3, "backoff": {"type": "exponential", "delay": 200}},
    )
    print("b64:", *struct.unpack("<16i", base64.b64decode(answer["outputs"][0]["b64"])))

    # Over HTTP, at any gateway: the id is the model's name, a tilde, and BullMQ's id.
    job = await queue.add("any name", {"inputs": [int32("INPUT0", ones), int32("INPUT1", ones)]}, KEPT)
    result = await asyncio.to_thread(get, f"{url}/v2/jobs/simple~{job.id}/result?wait=30s")
    print("HTTP:", *result["outputs"][0]["data"])

    # A mistake fails at once, whatever its attempts, with the text that HTTP gives.
    try:
        await ask({"inputs": []}, {"attempts": 5})
    except RuntimeError as error:
        print("failed:", error)

    await events.close()
    await queue.close()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000"))

"""A client that knows NATS and the format of the documents, but not callboard.

    python_client.py SERVER BUCKET KEY read
    python_client.py SERVER BUCKET KEY update REVISION TEXT
    python_client.py SERVER BUCKET KEY history

Prints one JSON value.
"""

import asyncio
import json
import sys

import nats
from nats.js.errors import KeyWrongLastSequenceError


async def read(entries, key):
    entry = await entries.get(key)
    return {"revision": entry.revision, "document": json.loads(entry.value)}


async def update(entries, key, revision, text):
    """Records progress, as the format demands, based on this revision."""
    document = json.loads((await entries.get(key, revision=int(revision))).value)
    document["sequence"] += 1
    phase = document["metadata"]["current_phase"]
    document["phases"][phase]["output"]["draft"] = text
    document["history"].append({
        "timestamp": document["metadata"]["updated_at"],
        "phase": phase,
        "event": "progress",
        "sequence": document["sequence"],
    })
    try:
        revision = await entries.update(key, json.dumps(document).encode(), last=int(revision))
    except KeyWrongLastSequenceError as conflict:
        return {"conflict": str(conflict)}
    return {"revision": revision, "sequence": document["sequence"]}


async def history(entries, key):
    found = await entries.history(key)
    return [{"revision": entry.revision, "document": json.loads(entry.value)} for entry in found]


async def main(server, bucket, key, action, *arguments):
    client = await nats.connect(server)
    entries = await client.jetstream().key_value(bucket)
    answer = await {"read": read, "update": update, "history": history}[action](entries, key, *arguments)
    await client.close()
    print(json.dumps(answer))


asyncio.run(main(*sys.argv[1:]))

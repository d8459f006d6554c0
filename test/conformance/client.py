#!/usr/bin/env python3
"""Uses a running server call by call through Triton's official clients: tritonclient.http, .grpc, .http.aio, .grpc.aio.

The server has the models of repo/onnx and repo/javascript, in the set-up `none`.
The last line printed is "N passed, N failed"; the exit code is 1 if any failed.
"""
import argparse
import asyncio
import fnmatch
import inspect
import sys
import traceback
from types import SimpleNamespace

from kit import venv

venv.enter()
import tritonclient.grpc  # noqa: E402
import tritonclient.grpc.aio  # noqa: E402
import tritonclient.http  # noqa: E402
import tritonclient.http.aio  # noqa: E402

from clients import grpc_aio_calls, grpc_calls, grpc_stream_calls, http_aio_calls, http_calls  # noqa: E402

# (the client's name, its module, how to connect and its calls, which address it takes)
CLIENTS = [
    ("http", tritonclient.http, http_calls, "http"),
    ("grpc", tritonclient.grpc, grpc_calls, "grpc"),
    ("grpc-stream", tritonclient.grpc, grpc_stream_calls, "grpc"),
    ("http.aio", tritonclient.http.aio, http_aio_calls, "http"),
    ("grpc.aio", tritonclient.grpc.aio, grpc_aio_calls, "grpc"),
]


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", default="localhost:8000", metavar="HOST:PORT")
    parser.add_argument("--grpc", default="localhost:8001", metavar="HOST:PORT")
    parser.add_argument("--call", default="*", metavar="GLOB", help="only calls of such names, as http/infer_*")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th of them")
    parser.add_argument("--verbose", action="store_true", help="also name what passes")
    return parser.parse_args(arguments)


def run(api, module, address, call, options):
    """One call with a client of its own, so that none leaves anything to the next."""
    at = SimpleNamespace(http=options.http, grpc=options.grpc, api=api)
    if inspect.iscoroutinefunction(call):
        asyncio.run(run_async(module, address, call, at))
        return
    with module.connect(address) as at.client:
        call(at)


async def run_async(module, address, call, at):
    async with module.connect(address) as at.client:
        await call(at)


def main(arguments):
    options = parse_arguments(arguments)
    calls = [(name + "/" + call.__name__, api, module, getattr(options, door), call)
             for name, api, module, door in CLIENTS for call in module.CALLS]
    selected = [one for one in calls if fnmatch.fnmatch(one[0], options.call)][::options.every]
    failed = 0
    for name, api, module, address, call in selected:
        try:
            run(api, module, address, call, options)
        except Exception:
            failed += 1
            print("FAIL tritonclient.%s: %s" % (name, call.__doc__), flush=True)
            traceback.print_exc(file=sys.stdout)
            continue
        if options.verbose:
            print("ok   tritonclient.%s: %s" % (name, call.__doc__), flush=True)
    print("%d passed, %d failed" % (len(selected) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Runs the golden cases of one server set-up against a running server.

The last line printed is "N passed, N failed"; the exit code is 1 if any failed.
"""
import argparse
import fnmatch
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kit import venv

venv.enter()
from kit.cases import load_cases, runs_alone  # noqa: E402
from kit.script import Run, Server  # noqa: E402

HERE = Path(__file__).resolve().parent


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", default="http://localhost:8000", metavar="URL")
    parser.add_argument("--grpc", default="localhost:8001", metavar="HOST:PORT")
    parser.add_argument("--metrics", metavar="URL", help="default: the HTTP host, port + 2")
    parser.add_argument("--case", action="append", metavar="GLOB",
                        help="run only matching names; may be repeated")
    parser.add_argument("--except", dest="exceptions", type=Path, metavar="FILE",
                        help="lines 'name reason' of cases where the server differs on "
                             "purpose; one that passes all the same counts as failed")
    parser.add_argument("--server", default="none", help="a set-up of servers.json (default: none)")
    parser.add_argument("--variant", default="onnx", choices=("python", "onnx"),
                        help="which model repository the server has (default: onnx)")
    parser.add_argument("--also", default="", metavar="MODEL,...",
                        help="Python models of which the server has ports: their cases run too")
    parser.add_argument("--dir", action="append", metavar="FOLDER",
                        help="folder of case files (default: cases); may be repeated")
    parser.add_argument("--jobs", type=int, default=1,
                        help="cases at a time, but for those that change, count or time something")
    parser.add_argument("--verbose", action="store_true", help="also name passing cases")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    return parser.parse_args(arguments)


def metrics_url(http):
    url = urllib.parse.urlsplit(http)
    return "http://%s:%d" % (url.hostname, url.port + 2)


def read_exceptions(path):
    """Case names with the reason why this server differs on purpose."""
    found = {}
    for line in path.read_text().splitlines() if path else []:
        name, _, reason = line.strip().partition(" ")
        if name and not name.startswith("#"):
            if not reason.strip():
                sys.exit("%s: no reason given for %s" % (path, name))
            found[name] = reason.strip()
    return found


def selected_cases(options):
    also = [name for name in options.also.split(",") if name]
    return [case for folder in options.dir or ["cases"]
            for case in load_cases(HERE / folder, options.server, options.variant, also)
            if any(fnmatch.fnmatch(case["name"], glob) for glob in options.case or ["*"])]


def run_case(server, case):
    try:
        return Run(server).case(case)
    except Exception as error:
        return ["%s: %s" % (type(error).__name__, error)]


def run_cases(server, cases, jobs):
    """Yields each case with its problems: first those that others do not disturb, then the others one by one."""
    beside = [case for case in cases if not runs_alone(case)]
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(beside, pool.map(lambda case: run_case(server, case), beside))
    for case in cases:
        if runs_alone(case):
            yield case, run_case(server, case)


def main(arguments):
    options = parse_arguments(arguments)
    if "://" not in options.http:
        options.http = "http://" + options.http
    server = Server(options.http, options.grpc, options.metrics or metrics_url(options.http),
                    options.variant)
    exceptions = read_exceptions(options.exceptions)
    cases = selected_cases(options)
    if options.list:
        for case in cases:
            print(case["name"])
        cases = []
    passed = failed = excepted = 0
    for case, problems in run_cases(server, cases, options.jobs):
        if case["name"] in exceptions:
            if problems:
                excepted += 1
                continue
            problems = ["passes, but is listed as different: " + exceptions[case["name"]]]
        failed += bool(problems)
        passed += not problems
        if problems or options.verbose:
            print("%s %s" % ("FAIL" if problems else "ok  ", case["name"]), flush=True)
        for problem in problems:
            print("     " + problem)
    if excepted:
        print("%d different on purpose" % excepted)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

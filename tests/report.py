#!/usr/bin/env python3
"""Counts what a test run did, test by test, and shows what failed.

    report.py meson MESON-LOGS/testlog.json     every subtest of every program
    report.py tap FILE                          what bats printed

Prints the output of what failed, each skipped test with its reason, and as its last line
"PASSED FAILED SKIPPED". A program that died before its last subtest counts as one more failure.
"""

import json
import re
import sys

LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)(?:\s*# (skip|todo)\b\s*(.*))?$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*# skip\b\s*(.*))?", re.IGNORECASE)

# A test's output is shown in full up to here; then its end, which says why.
OUTPUT_MAX = 60000


def parse(text):
    """TAP as [(name, "passed" | "failed" | "skipped", reason)], the number that was planned, and whether
    something in it explains that the program as a whole was judged badly."""
    results, planned, explained = [], None, False
    for line in text.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = int(plan[1])
            if planned == 0:
                results.append(("all of it", "skipped", plan[2] or "nothing to do"))
            continue
        match = LINE.match(line)
        if not match:
            continue
        bad, _, name, directive, reason = match.groups()
        if directive and directive.lower() == "skip":
            # cmocka writes "not ok N # SKIP name", which meson takes for a failure.
            results.append((name or reason, "skipped", reason if name else "needs another build or user"))
            explained |= bool(bad)
        else:
            results.append((name, "failed" if bad else "passed", ""))
            explained |= bool(bad)
    return results, planned, explained


def judge(name, text, died):
    """The results of one program; one that prints no TAP is one test. died: it ended badly."""
    results, planned, explained = parse(text)
    if planned is None and not results:
        return [(name, "failed" if died else "passed", "")]
    lost = planned is None or len(results) < planned
    if lost or (died and not explained):
        results.append((f"{name} did not come to its end", "failed", ""))
    return results


def show(name, results, output):
    """Skips in a line each; of a program with failures, everything that it said."""
    for test, state, reason in results:
        if state == "skipped":
            print(f"   skipped: {name}: {test} ({reason})")
    failed = [test for test, state, _ in results if state == "failed"]
    if not failed:
        return
    for test in failed:
        print(f"   FAILED: {name}: {test}")
    if len(output) > OUTPUT_MAX:
        output = "[...]\n" + output[-OUTPUT_MAX:]
    print("".join(f"   | {line}\n" for line in output.splitlines()), end="")


def meson(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            test = json.loads(line)
            output = (test.get("stdout") or "") + (test.get("stderr") or "")
            died = test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")
            if test["result"] in ("TIMEOUT", "INTERRUPT"):
                output += f"\n{test['name']}: {test['result'].lower()} after {test['duration']:.0f} s\n"
            yield test["name"], judge(test["name"], test.get("stdout") or "", died), output


def tap(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        output = log.read()
    yield path, judge(path, output, died=not re.search(r"^1\.\.\d", output, re.MULTILINE)), output


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    kinds = {"meson": meson, "tap": tap}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    for name, results, output in kinds[sys.argv[1]](sys.argv[2]):
        show(name, results, output)
        for _, state, _ in results:
            counts[state] += 1
    print(counts["passed"], counts["failed"], counts["skipped"])


main()

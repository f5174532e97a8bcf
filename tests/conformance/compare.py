#!/usr/bin/env python3
"""Holds cloop-conform against the rows of a directory.

usage: compare.py PROGRAM DIRECTORY

Each FILE.json is a list of rows {"name", "call"?, "input", "want"}. Prints TAP, one test a row. A row
passes when the answer has every key of "want" with an equal value; extra keys are allowed. Keys
with a suffix are compared with the answer's plain key ("text" when nothing is left of the name):

  _any_of                 one of the values
  _must_contain           every one of the strings
  _must_not_contain       none of them
  _must_contain_in_order  all of them, in this order

"tolerance_ns" of a row allows whole numbers to differ by so much; "sentinel_on_refusal" is what an
answer of {"ok": false} must have as "sentinel".
"""
import json
import pathlib
import subprocess
import sys

SUFFIXES = ("any_of", "must_contain_in_order", "must_not_contain", "must_contain")


def split(key):
    for suffix in SUFFIXES:
        if key == suffix:
            return "text", suffix
        if key.endswith("_" + suffix):
            return key[: -len(suffix) - 1], suffix
    return key, None


def in_order(text, parts):
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def special(suffix, want, got):
    if suffix == "any_of":
        return got in want
    if not isinstance(got, str):
        return False
    if suffix == "must_contain":
        return all(part in got for part in want)
    if suffix == "must_not_contain":
        return not any(part in got for part in want)
    return in_order(got, want)


def matches(want, got, tolerance):
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return False
        for key, value in want.items():
            plain, suffix = split(key)
            if plain not in got:
                return False
            if suffix and not special(suffix, value, got[plain]):
                return False
            if not suffix and not matches(value, got[plain], tolerance):
                return False
        return True
    if isinstance(want, list):
        return (isinstance(got, list) and len(want) == len(got) and
                all(matches(w, g, tolerance) for w, g in zip(want, got)))
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        return abs(want - got) <= tolerance
    return want == got


def main():
    program, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    rows = []
    for path in sorted(directory.glob("*.json")):
        for row in json.loads(path.read_text()):
            call = path.stem + ("/" + row["call"] if "call" in row else "")
            rows.append((call, row))
    lines = "".join(json.dumps({"call": call, "input": row["input"]}) + "\n" for call, row in rows)
    # One line more that nobody knows, and one that is no JSON at all.
    lines += '{"call":"Nothing","input":{}}\nnonsense\n'
    run = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]

    print(f"1..{len(rows) + 1}")
    for i, (call, row) in enumerate(rows):
        got = answers[i] if i < len(answers) else None
        ok = matches(row["want"], got, row.get("tolerance_ns", 0))
        if ok and got.get("ok") is False and "sentinel_on_refusal" in row:
            ok = got.get("sentinel") == row["sentinel_on_refusal"]
        print(f"{'ok' if ok else 'not ok'} {i + 1} - {call}: {row['name'].replace('#', '')}")
        if not ok:
            print(f"# want {json.dumps(row['want'])[:2000]}\n# got  {json.dumps(got)[:2000]}")
    unknown = answers[len(rows):] == [{"unknown_call": True}] * 2
    print(f"{'ok' if unknown else 'not ok'} {len(rows) + 1} - calls that are not known")


main()

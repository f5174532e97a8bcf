#!/usr/bin/env python3
"""compare.py WANTED GOT: whether a command printed what its document says (see extract.py)."""

import difflib
import re
import sys


def pattern(text):
    """The regular expression that a document's output stands for."""
    parts = []
    for line in text.splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.split("…")) + r"\n")
    return "".join(parts)


def main():
    with open(sys.argv[1], encoding="utf-8") as wanted, open(sys.argv[2], encoding="utf-8", errors="replace") as got:
        wanted, got = wanted.read(), got.read()
    # Which script and line bash names is not what a person who types sees.
    got = re.sub(r"(?m)^\S+: line \d+: ", "bash: ", got)
    if re.fullmatch(pattern(wanted), got):
        return
    sys.stdout.writelines(difflib.unified_diff(wanted.splitlines(True), got.splitlines(True), "document", "printed"))
    sys.exit(1)


main()

#!/usr/bin/env python3
"""Takes the examples out of a document.

    extract.py DOCUMENT.md DIRECTORY

What is an example is said by the fence:

    ```sh           commands, typed by root
    ```sh alice     the same, typed by somebody else (tests/docs/private_root says who there is)
    ```sh elsewhere commands that the tests run in another place, or that only a user can run
    ```output       what the commands above print; … stands for anything in a line, and a line of it
                    alone for any lines

A command whose line ends in `# refused` has to fail, every other one has to succeed. Each example N
becomes N.sh, N.who (and N.output), with the document's line in N.line.
"""

import pathlib
import re
import sys


def fences(text):
    """(first line, info string, lines) of each fenced block."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        if block is None:
            match = re.match(r"^```(\S.*)?$", line)
            if match:
                block = (number + 1, (match[1] or "").split(), [])
        elif line == "```":
            yield block
            block = None
        else:
            block[2].append(line)
    if block is not None:
        sys.exit(f"line {block[0]}: the block has no end")


def main():
    document, directory = map(pathlib.Path, sys.argv[1:3])
    n, follows = 0, False
    for line, info, lines in fences(document.read_text(encoding="utf-8")):
        kind = info[0] if info else ""
        if kind == "sh" and info[1:] != ["elsewhere"]:
            n += 1
            who = info[1] if len(info) > 1 else "root"
            text = "".join(f"{text}\n" for text in lines)
            (directory / f"{n}.sh").write_text(text, encoding="utf-8")
            (directory / f"{n}.who").write_text(f"{who}\n", encoding="utf-8")
            (directory / f"{n}.line").write_text(f"{line}\n", encoding="utf-8")
        elif kind == "output":
            if not follows:
                sys.exit(f"{document}:{line}: output of what?")
            text = "".join(f"{text}\n" for text in lines)
            (directory / f"{n}.output").write_text(text, encoding="utf-8")
        elif kind not in ("sh", "text", "json", "c", "sql", "meson"):
            sys.exit(f"{document}:{line}: what is a block of '{kind}'?")
        follows = kind == "sh" and info[1:] != ["elsewhere"]
    print(n)


main()

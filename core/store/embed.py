#!/usr/bin/env python3
"""Turns the migrations NNN-name.sql into a C table: embed.py OUT.c 001-first.sql 002-next.sql ..."""
import os
import re
import sys


def literal(text):
    lines = text.splitlines()
    quoted = (line.replace('\\', '\\\\').replace('"', '\\"') for line in lines)
    return '\n'.join('\t\t"%s\\n"' % line for line in quoted)


def main(out, paths):
    entries = []
    for number, path in enumerate(sorted(paths), start=1):
        match = re.fullmatch(r'(\d{3})-([a-z0-9-]+)\.sql', os.path.basename(path))
        if not match or int(match.group(1)) != number:
            sys.exit('%s: expected %03d-name.sql, numbered without gaps' % (path, number))
        with open(path, encoding='ascii') as f:
            entries.append('\t{%d, "%s",\n%s\n\t},\n' % (number, match.group(2), literal(f.read())))
    with open(out, 'w', encoding='ascii') as f:
        f.write('#include "core/store/internal.h"\n\n'
                'static const struct store_migration migrations[] = {\n')
        f.writelines(entries)
        f.write('};\n\nconst struct store_schema store_schema_builtin = {\n'
                '\tmigrations, sizeof(migrations) / sizeof(migrations[0])};\n')


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2:])

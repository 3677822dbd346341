"""Measured beside asked: the rows of one scenario, printed as they come; and times as text."""

import collections


class Table:
    def __init__(self):
        # Rows of (figure, measured, asked, whether it was met), and the faults of single answers.
        self.rows, self.faults = [], []

    def add(self, name, measured, asked="", met=None):
        self.rows.append((name, measured, asked, met))
        verdict = {True: " met", False: " missed", None: ""}[met]
        print(f"{name}: {measured}{f' (asked: {asked})' if asked else ''}{verdict}", flush=True)

    def expect_none(self, what, found):
        """Those found are faults, which fail the run: the commonest are told."""
        self.faults += [f"{what}: {count} × {fault}" for fault, count in collections.Counter(map(str, found)).most_common(3)]
        self.add(what, str(len(found)), "0", not found)


def microseconds(value):
    if value is None:
        return "—"
    return f"{value:,.0f} µs" if value < 1000 else f"{value / 1000:,.1f} ms"

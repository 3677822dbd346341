"""Measured beside asked: printed as it comes, and a report of it."""

from lib import machine


class Table:
    """Rows of a figure, what it is to be, and whether it is."""

    def __init__(self):
        # Rows, what was wrong with single answers, and drawings by name.
        self.rows, self.faults, self.charts = [], [], {}

    def add(self, name, measured, target="", met=None):
        verdict = {True: "met", False: "**missed**", None: ""}[met]
        self.rows.append((name, measured, target, verdict))
        print(f"{name}: {measured}{f' (asked: {target})' if target else ''} {verdict}", flush=True)

    def missed(self):
        return any("missed" in row[3] for row in self.rows)

    def markdown(self):
        lines = ["| | measured | asked | |", "|---|---|---|---|"]
        return lines + ["| " + " | ".join(row) + " |" for row in self.rows]

    def write(self, file, title, said, versions=(), below=()):
        """The report into that file: what it ran on, what was `said` of it, the rows, and more lines below."""
        what = machine.describe()
        on = [what["versions"][each].split(" sha")[0] for each in versions]
        lines = [
            f"# {title}",
            "",
            f"{machine.said(what)}; "
            + "".join(f"{each}; " for each in on)
            + f"load at the end {what['load_average']:.2f}.",
            "",
            said,
            "",
            *self.markdown(),
            *below,
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
        print(f"report: {file}")

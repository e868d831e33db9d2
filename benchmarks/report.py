"""Rows of measurements with their targets, as a table for the terminal and as Markdown."""
import dataclasses

from harness import Summary

HEADINGS = ("", "unit", "ours min", "ours median", "theirs min", "theirs median", "theirs ÷ ours", "of medians",
            "target", "")


@dataclasses.dataclass(frozen=True)
class AtMost:
    """Our minimum may not exceed `limit`."""
    limit: float

    def text(self, unit):
        return f"≤ {self.limit:g} {unit}"

    def met(self, row):
        return row.ours.minimum <= self.limit


@dataclasses.dataclass(frozen=True)
class Times:
    """Theirs must be at least `factor` times ours, by minima and, if asked, by medians too."""
    factor: float
    medians_too: bool = False

    def text(self, unit):
        return f"≥ {self.factor:g}×" + (", both" if self.medians_too else "")

    def met(self, row):
        return row.ratio() >= self.factor and (not self.medians_too or row.ratio_of_medians() >= self.factor)


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity, less is better. `theirs` and `target` may be missing."""
    what: str
    unit: str
    ours: Summary
    theirs: Summary | None = None
    target: AtMost | Times | None = None

    def ratio(self):
        return self.theirs.minimum / self.ours.minimum

    def ratio_of_medians(self):
        return self.theirs.median / self.ours.median

    def verdict(self):
        return "" if self.target is None else "met" if self.target.met(self) else "MISSED"

    def cells(self):
        theirs = ["", "", "", ""]
        if self.theirs:
            theirs = [number(self.theirs.minimum), number(self.theirs.median), times(self.ratio()),
                      times(self.ratio_of_medians())]
        target = self.target.text(self.unit) if self.target else ""
        return [self.what, self.unit, number(self.ours.minimum), number(self.ours.median), *theirs, target,
                self.verdict()]


def number(value):
    """Three digits that matter."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(ratio):
    """Near 1 the third digit decides."""
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.3f}×" if ratio < 2 else f"{ratio:.2f}×"


def lines(rows):
    """The table in columns: names to the left, numbers to the right."""
    table = [list(HEADINGS)] + [row.cells() for row in rows]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADINGS))]
    for cells in table:
        aligned = [cell.ljust(width) if column in (0, 1, len(HEADINGS) - 1) else cell.rjust(width)
                   for column, (cell, width) in enumerate(zip(cells, widths))]
        yield "  ".join(aligned).rstrip()


def markdown(title, facts, rows, notes):
    """A page: `facts` are (name, value) pairs about the machine and the run, `notes` say how it was measured."""
    table = [list(HEADINGS), [":--", ":--"] + ["--:"] * (len(HEADINGS) - 3) + [":--"]]
    table += [row.cells() for row in rows]
    page = [f"# {title}", ""]
    page += [f"- {name}: {value}" for name, value in facts] + [""]
    page += ["| " + " | ".join(cells) + " |" for cells in table] + ["", notes.strip(), ""]
    return "\n".join(page)

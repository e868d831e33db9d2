"""Rows of measurements with their targets, as a table for the terminal and as Markdown."""
import dataclasses

from harness import Summary

HEADINGS = ("", "unit", "ours min", "ours median", "theirs min", "theirs median", "theirs ÷ ours", "of medians",
            "target", "")
BOUND_HEADINGS = ("bound", "of bound")  # Before the target, where any row has a bound.


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
class OfBound:
    """The row's bound must be at least `share` of our minimum."""
    share: float

    def text(self, unit):
        return f"≥ {self.share:g} of bound"

    def met(self, row):
        return row.of_bound() >= self.share


@dataclasses.dataclass(frozen=True)
class TimesBound:
    """Our minimum may be at most `limit` times the row's bound."""
    limit: float

    def text(self, unit):
        return f"≤ {self.limit:g}× bound"

    def met(self, row):
        return row.ours.minimum <= self.limit * row.bound


@dataclasses.dataclass(frozen=True)
class Share:
    """Our minimum may be at most `limit` of theirs."""
    limit: float

    def text(self, unit):
        return f"≤ {self.limit:g}× theirs"

    def met(self, row):
        return row.ours.minimum <= self.limit * row.theirs.minimum


class Both:
    """All of several targets."""

    def __init__(self, *targets):
        self.targets = targets

    def text(self, unit):
        return ", ".join(target.text(unit) for target in self.targets)

    def met(self, row):
        return all(target.met(row) for target in self.targets)


@dataclasses.dataclass(frozen=True)
class Row:
    """One quantity, less is better. `theirs`, `target` and `bound`, below which nobody can get, may be missing."""
    what: str
    unit: str
    ours: Summary
    theirs: Summary | None = None
    target: AtMost | Times | OfBound | TimesBound | Share | Both | None = None
    bound: float | None = None

    def ratio(self):
        return self.theirs.minimum / self.ours.minimum

    def ratio_of_medians(self):
        return self.theirs.median / self.ours.median

    def of_bound(self):
        return self.bound / self.ours.minimum

    def verdict(self):
        return "" if self.target is None else "met" if self.target.met(self) else "MISSED"

    def cells(self, with_bound=False):
        theirs = ["", "", "", ""]
        if self.theirs:
            theirs = [number(self.theirs.minimum), number(self.theirs.median), times(self.ratio()),
                      times(self.ratio_of_medians())]
        target = self.target.text(self.unit) if self.target else ""
        bound = [] if not with_bound else ["", ""] if self.bound is None else [
            number(self.bound), f"{self.of_bound():.2f}"]
        return [self.what, self.unit, number(self.ours.minimum), number(self.ours.median), *theirs, *bound, target,
                self.verdict()]


@dataclasses.dataclass(frozen=True)
class Absent:
    """A row that could not be measured here, and why."""
    what: str
    why: str
    bound = None

    def cells(self, with_bound=False):
        return [f"{self.what}: absent, {self.why}", *[""] * (11 if with_bound else 9)]


def number(value):
    """Three digits that matter."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(ratio):
    """Near 1 the third digit decides."""
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.3f}×" if ratio < 2 else f"{ratio:.2f}×"


def cells_of(rows):
    """The table with its headings; columns for bounds only where there are any."""
    with_bound = any(row.bound is not None for row in rows)
    headings = [*HEADINGS[:-2], *(BOUND_HEADINGS if with_bound else ()), *HEADINGS[-2:]]
    return [headings] + [row.cells(with_bound) for row in rows]


def lines(rows):
    """The table in columns: names to the left, numbers to the right."""
    table = cells_of(rows)
    last = len(table[0]) - 1
    widths = [max(len(cells[column]) for cells in table) for column in range(last + 1)]
    for cells in table:
        aligned = [cell.ljust(width) if column in (0, 1, last) else cell.rjust(width)
                   for column, (cell, width) in enumerate(zip(cells, widths))]
        yield "  ".join(aligned).rstrip()


def markdown(title, facts, rows, notes):
    """A page: `facts` are (name, value) pairs about the machine and the run, `notes` say how it was measured."""
    headings, *body = cells_of(rows)
    table = [headings, [":--", ":--"] + ["--:"] * (len(headings) - 3) + [":--"], *body]
    page = [f"# {title}", ""]
    page += [f"- {name}: {value}" for name, value in facts] + [""]
    page += ["| " + " | ".join(cells) + " |" for cells in table] + ["", notes.strip(), ""]
    return "\n".join(page)

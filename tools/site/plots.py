"""Plots of the tables of benchmarks: how many times the original's cost is ours, on a logarithmic axis."""
import html
import math

COLUMNS = ("unit", "ours median", "theirs median", "of medians")
MOST_ROWS = 24  # A page with more shows those that have a target.
WIDTH, ROW, LEFT, RIGHT, TOP = 460, 38, 8, 64, 26
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_of(table):
    """Label, unit, our median, their median, their median ÷ ours, whether there is a target."""
    heads = ["", *cells_of(table[0])[1:]]
    if not all(column in heads for column in COLUMNS):
        return []
    found = []
    for line in table[2:]:
        cells = dict(zip(heads[1:], cells_of(line)[1:]))
        label, ratio = cells_of(line)[0], cells["of medians"].rstrip("×").replace(",", "")
        try:
            ratio = float(ratio)
        except ValueError:
            continue  # A row without an original.
        if ratio > 0:
            found.append((label, cells["unit"], cells["ours median"], cells["theirs median"], ratio, bool(cells.get("target"))))
    wanted = [row for row in found if row[-1]]
    return found if len(found) <= MOST_ROWS else (wanted or found)[:MOST_ROWS]


def tables_of(text):
    """Pairs of the number of the first line and the lines of each table."""
    found, table = [], []
    for number, line in enumerate([*text.splitlines(), ""]):
        if line.startswith("|"):
            table.append(line)
        elif table:
            found.append((number - len(table), table))
            table = []
    return found


def amount(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.3g}" if ratio < 100 else f"{ratio:.0f}"


def bar_row(row, top, place):
    label, unit, ours, theirs, ratio, _ = row
    one, end = place(1), place(ratio)
    kind = "better" if ratio >= 1 else "worse"
    what = html.escape(f"{label}: ours {ours} {unit}, theirs {theirs} {unit}")
    return (f'<g><title>{what}</title><text x="{LEFT}" y="{top + 11}">{html.escape(label)}</text>'
            f'<rect class="{kind}" x="{min(one, end):.1f}" y="{top + 17}" width="{max(1.5, abs(end - one)):.1f}" height="11" rx="2"/>'
            f'<text class="amount" x="{max(one, end) + 5:.1f}" y="{top + 26.5}">{amount(ratio)}×</text></g>')


def plot(rows):
    """An SVG in the page's colours, which change with light and dark."""
    low = min(0.9, *(row[4] for row in rows))
    high = max(2.0, *(row[4] for row in rows))
    span = math.log(high / low)

    def place(ratio):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / low) / span

    height = TOP + ROW * len(rows) + 4
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="The originals\' cost divided by ours, by row">']
    last = -100
    for tick in TICKS:
        if low <= tick <= high and place(tick) - last > 34:
            last = place(tick)
            parts.append(f'<line class="{"one" if tick == 1 else "tick"}" x1="{last:.1f}" x2="{last:.1f}" y1="{TOP - 6}" y2="{height - 4}"/>'
                         f'<text class="axis" x="{last:.1f}" y="{TOP - 10}">{tick:g}×</text>')
    parts += [bar_row(row, TOP + ROW * number, place) for number, row in enumerate(rows)]
    return "".join([*parts, "</svg>"])


def with_plots(text):
    """`text` of a page of results with a plot before each table that has medians of both."""
    lines = text.splitlines()
    for number, table in reversed(tables_of(text)):
        rows = rows_of(table)
        if rows:
            caption = "The original's median divided by ours: longer is better for us, and at 1× both are equal."
            lines[number:number] = [f'<figure class="plot"><figcaption>{caption}</figcaption>{plot(rows)}</figure>', ""]
    return "\n".join(lines) + "\n"

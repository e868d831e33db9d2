#include "accelerate/watch/page/page_parts.h"

namespace accelerate::detail {

std::string_view page_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #f4f6f8; --card: #ffffff; --text: #1b2026; --muted: #57606a; --line: #d8dee4;
  --good: #116329; --busy: #0b57b7; --warning: #7d4e00; --bad: #a40e26; --chosen: #eef6ff;
  --s1: #1f6feb; --s2: #c2410c; --s3: #1a7f37; --s4: #8250df; --s5: #bf3989; --s6: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1116; --card: #171b22; --text: #e6edf3; --muted: #9da7b3; --line: #303842;
    --good: #56d364; --busy: #79b8ff; --warning: #e3b341; --bad: #ff7b72; --chosen: #1c2a3d;
    --s1: #58a6ff; --s2: #ff9d5c; --s3: #56d364; --s4: #bc8cff; --s5: #ff7bba; --s6: #9da7b3;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text); overflow-wrap: anywhere;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { margin: 0; font-size: 26px; line-height: 1.2; }
h2 { display: inline; margin: 0; font-size: 17px; }
h3 { margin: 0; font-size: 15px; }
small, .run, .facts, .key, .axis, footer { color: var(--muted); }
h3 small { font-weight: normal; }
.run { margin: 0 0 2px; }
.status { display: inline-block; margin: 10px 0 6px; padding: 1px 12px; border: 1px solid; border-radius: 99px; font-weight: 600; }
.good { color: var(--good); } .busy { color: var(--busy); }
.warning { color: var(--warning); } .bad, .error { color: var(--bad); }
progress { display: block; width: 100%; height: 6px; margin: 6px 0; border: 0; border-radius: 3px; overflow: hidden; background: var(--line); accent-color: var(--s1); appearance: none; }
progress::-webkit-progress-bar { background: var(--line); }
progress::-webkit-progress-value { background: var(--s1); }
progress::-moz-progress-bar { background: var(--s1); }
.facts li, .legend li { min-width: 0; }
.facts { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 8px 0 0; padding: 0; list-style: none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); gap: 12px; margin: 20px 0; }
.tile, .chart, details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 10px 14px; min-width: 0; }
dt { color: var(--muted); font-size: 13px; }
dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.3; }
dd small { display: block; font-size: 13px; font-weight: normal; }
.key { margin: 0 0 8px; font-size: 13px; }
.key span { display: inline-block; width: 2px; height: 11px; margin: 0 5px 0 0; background: var(--muted); vertical-align: -1px; }
.key .best { width: 0; height: 14px; margin-left: 14px; background: none; border-left: 2px dashed var(--s3); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 16px; }
.chart { margin: 0; padding: 14px 18px 8px 14px; min-width: 0; break-inside: avoid; }
.legend { display: flex; flex-wrap: wrap; gap: 0 14px; margin: 2px 0 8px; padding: 0; list-style: none; font-size: 13px; color: var(--muted); }
.legend b { color: var(--text); font-variant-numeric: tabular-nums; }
.legend li::before { content: ""; display: inline-block; width: 10px; height: 10px; margin-right: 5px; border-radius: 3px; background: var(--c); }
.s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .gap { --c: var(--bad); }
.plot { position: relative; padding: 8px 0 0 calc(var(--gutter, 46px) + 6px); touch-action: pan-y; }
.plot svg { display: block; width: 100%; height: 200px; overflow: visible; }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round; }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .line { stroke: var(--c); stroke-width: 2; }
.plot .dots { stroke: var(--c); stroke-width: 6; }
.plot .area { fill: var(--c); fill-opacity: .82; stroke: var(--card); stroke-width: 1; }
.plot .gap { stroke: var(--bad); stroke-width: 3; }
.plot .saved { stroke: var(--muted); stroke-width: 2; stroke-linecap: butt; }
.plot .best { stroke: var(--s3); stroke-width: 2; stroke-dasharray: 5 4; stroke-linecap: butt; }
.ys, .xs { font-size: 12px; color: var(--muted); font-variant-numeric: tabular-nums; }
.ys { position: absolute; left: 0; top: 8px; width: var(--gutter, 46px); height: 200px; text-align: right; }
.ys span { position: absolute; right: 0; transform: translateY(-50%); white-space: nowrap; }
.xs { position: relative; height: 20px; border-top: 1px solid var(--line); }
.xs span { position: absolute; top: 3px; transform: translateX(-50%); white-space: nowrap; }
.xs .first { transform: none; } .xs .last { transform: translateX(-100%); }
.axis { margin: 0; font-size: 12px; text-align: right; }
.cursor { position: absolute; top: 8px; width: 1px; height: 200px; background: var(--muted); pointer-events: none; }
.read { position: absolute; top: 12px; z-index: 1; padding: 4px 9px; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--text); max-width: 100%; overflow: hidden; font-size: 12px; white-space: pre; pointer-events: none; font-variant-numeric: tabular-nums; }
details { margin: 16px 0 0; padding: 12px 18px; }
summary { cursor: pointer; }
.wide { overflow-x: auto; margin-top: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { color: var(--muted); font-weight: 600; text-align: left; white-space: nowrap; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; max-width: 46em; font-variant-numeric: tabular-nums; }
tr:last-child td { border-bottom: 0; }
.numbers td, .numbers th { text-align: right; }
.numbers td, .fixed td { white-space: nowrap; }
.chosen td { background: var(--chosen); font-weight: 600; }
.none { padding: 30px 0; color: var(--muted); }
footer { padding-bottom: 30px; font-size: 13px; }
@media (max-width: 560px) {
  header, main, footer { padding-left: 10px; padding-right: 10px; }
  .tiles { grid-template-columns: repeat(2, 1fr); gap: 8px; }
  .chart { padding: 12px 12px 6px 8px; }
  dd { font-size: 19px; }
}
@media print {
  :root {
    --page: #ffffff; --card: #ffffff; --text: #000000; --muted: #454c54; --line: #c8ced4;
    --good: #116329; --busy: #0b57b7; --warning: #7d4e00; --bad: #a40e26; --chosen: #eeeeee;
    --s1: #1f6feb; --s2: #c2410c; --s3: #1a7f37; --s4: #8250df; --s5: #bf3989; --s6: #6b7280;
  }
  body { print-color-adjust: exact; -webkit-print-color-adjust: exact; font-size: 11px; }
  .charts { grid-template-columns: 1fr 1fr; }
  .tile, tr { break-inside: avoid; }
  .wide { overflow: visible; }
}
)css";
}

std::string_view page_script() {
  return R"js(
// Names what lies below the pointer. Texts go through textContent alone.
'use strict';
for (const plot of document.querySelectorAll('.plot')) {
  const svg = plot.querySelector('svg');
  const names = Array.from(plot.parentNode.querySelectorAll('.legend span'), e => e.dataset.name || e.textContent);
  const cursor = document.createElement('i'), read = document.createElement('output');
  cursor.className = 'cursor';
  read.className = 'read';
  let range, series;
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return x - xs[low] < xs[high] - x ? low : high;
  };
  const step = value => String(Number(value.toPrecision(8)));
  const show = value => typeof value === 'number' ? String(Number(value.toPrecision(4))) : value;
  plot.addEventListener('pointermove', event => {
    range = range || JSON.parse(plot.dataset.range);
    series = series || JSON.parse(plot.dataset.points);
    const box = svg.getBoundingClientRect(), place = plot.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    if (share < -0.02 || share > 1.02) return leave();
    const x = range[0] + share * (range[1] - range[0]);
    const near = series.map(s => nearest(s[0], x));
    let best = 0;
    series.forEach((s, k) => {
      if (Math.abs(s[0][near[k]] - x) < Math.abs(series[best][0][near[best]] - x)) best = k;
    });
    const at = series[best][0][near[best]];
    const lines = series.map((s, k) => names[k] + ' ' + show(s[1][near[k]]) +
      (s[0][near[k]] === at ? '' : ' (' + step(s[0][near[k]]) + ')'));
    read.textContent = [plot.dataset.x + ' ' + step(at), ...lines].join('\n');
    const left = box.left - place.left + (at - range[0]) / (range[1] - range[0]) * box.width;
    cursor.style.left = left + 'px';
    plot.append(cursor, read);
    const after = left + 10 + read.offsetWidth > place.width;
    read.style.left = (after ? Math.max(0, left - 10 - read.offsetWidth) : left + 10) + 'px';
  });
  const leave = () => { cursor.remove(); read.remove(); };
  plot.addEventListener('pointerleave', leave);
}
)js";
}

}  // namespace accelerate::detail

"""The style sheet of the HTML report."""

from __future__ import annotations

STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff;
  --line: #d0d7de; --wash: #f3f5f7; --good: #116329; --bad: #a40e26; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa4af; --paper: #0f1318; --line: #30363d; --wash: #191f26;
    --good: #56d364; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.5rem; margin: 0 0 12px; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 32px 0 10px; }
summary h2 { display: inline; }
h3 { font-size: 0.85rem; margin: 12px 0 4px; color: var(--soft); }
details { margin-top: 24px; }
details.record { margin-top: 6px; border-left: 3px solid var(--line); padding-left: 10px; }
summary { cursor: pointer; overflow-wrap: anywhere; }
ul { margin: 6px 0; padding-left: 20px; }
li { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 9px; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th { font-weight: 600; background: var(--wash); vertical-align: bottom; }
.num { text-align: right; white-space: nowrap; }
dl { margin: 8px 0; font-size: 0.85rem; color: var(--soft); display: grid;
  grid-template-columns: max-content 1fr; gap: 1px 12px; }
dt { font-weight: 600; } dd { margin: 0; }
.formula, .legend { color: var(--soft); font-size: 0.9rem; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 18px; }
.decided { list-style: none; padding: 0; }
.good { color: var(--good); } .bad { color: var(--bad); }
td:last-child:not(.num) { min-width: 14em; }
figure { margin: 14px 0 22px; } figcaption { font-weight: 600; margin-bottom: 4px; }
figure svg { width: 100%; height: auto; max-width: 980px; display: block; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .value { fill: var(--soft); font-variant-numeric: tabular-nums; }
.track { fill: var(--wash); } .grid { stroke: var(--line); fill: none; }
.whisker { stroke: var(--ink); stroke-width: 1.4; fill: none; }
.s0 { fill: #3b6fd4; } .s1 { fill: #d9822b; } .s2 { fill: #2a9d78; } .s3 { fill: #8b5cc7; }
.s4 { fill: #c8465a; } .s5 { fill: #2f9bb5; } .s6 { fill: #8a8f2e; } .s7 { fill: #7a6a5d; }
pre { background: var(--wash); padding: 10px; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: 0.85rem; margin: 0; }
@media print { details > * { display: block; } main { max-width: none; } }
"""

"""The style of the report and of the pages of `dynq serve`: light and dark, one column on a phone."""

from __future__ import annotations

STYLE = """
:root{--bg:#fbfaf7;--fg:#1d2327;--quiet:#616a70;--card:#fff;--edge:#dcd9d0;--accent:#0b6e75;--soft:#d7ecec;
--leaf:#f1efe8;--table:#fbe6c6;--groups:#dcefd6;--blue:#2457c5;--green:#2f7d1f;--red:#b3261e}
@media(prefers-color-scheme:dark){:root{--bg:#14181b;--fg:#e6e8e6;--quiet:#9aa5a8;--card:#1c2226;--edge:#333c41;
--accent:#58c4c9;--soft:#17403f;--leaf:#262d31;--table:#4a3a1d;--groups:#23402a;--blue:#8fb0ff;--green:#8fd17f;
--red:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0 0;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:0 0 .5rem;overflow-wrap:anywhere}
header p,p{margin:.25rem 0 .6rem}
section{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:1rem;margin:1rem 0}
.quiet,figcaption,small{color:var(--quiet)}.small{font-size:.85rem}
.top{display:flex;flex-wrap:wrap;gap:.5rem 2rem;align-items:center;justify-content:space-between}
.count{font-size:2.2rem;font-weight:600;margin:0;font-variant-numeric:tabular-nums}
.count span,.count small{font-size:1rem;font-weight:400}
figure{margin:0;width:16rem;max-width:100%}figcaption{font-size:.8rem}
.curve{width:100%;height:auto;display:block}
.curve polyline{fill:none;stroke:var(--accent);stroke-width:2;stroke-linejoin:round}
.curve polygon{fill:var(--soft)}.curve circle{fill:var(--accent)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th{text-align:left;font-weight:600;color:var(--quiet);white-space:nowrap}
th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--edge);vertical-align:top}
tr:last-child td{border-bottom:0}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}td:first-child,time,td code{white-space:nowrap}
.rows td{overflow-wrap:anywhere}code.row{white-space:normal;overflow-wrap:anywhere}
form{display:flex;flex-wrap:wrap;gap:.5rem;align-items:end;margin:.5rem 0}label{color:var(--quiet);font-size:.85rem}
input{display:block;font:inherit;padding:.35rem .5rem;border:1px solid var(--edge);border-radius:6px;max-width:100%;
background:var(--bg);color:var(--fg)}button{font:inherit;padding:.35rem .9rem;border:0;border-radius:6px;
background:var(--accent);color:var(--bg);cursor:pointer}nav{display:flex;gap:1rem;margin:.5rem 0}
.came{color:var(--green)}.went{color:var(--red)}.error{border-left:4px solid var(--red);padding-left:.8rem}
.bars td.b{width:50%}.bar{display:block;height:.7rem;margin-top:.35rem;background:var(--accent);border-radius:3px;
min-width:1px}
code,pre,.tree text{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace}
code{font-size:.92em}
pre{overflow-x:auto;background:var(--leaf);padding:.8rem;border-radius:6px;font-size:.85rem}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--accent);padding:.3rem 0}
a{color:var(--accent)}
.tree{display:block;max-width:none}
.tree text{font-size:12px;fill:var(--fg)}.tree text.by{fill:var(--quiet)}
.tree rect{fill:var(--card);stroke:var(--quiet);stroke-width:1}
.tree .result rect,.tree .result-leaf rect{stroke:var(--accent);stroke-width:2}
.tree .leaf rect,.tree .result-leaf rect,.tree .passed rect{fill:var(--leaf)}
.tree .table rect{fill:var(--table)}.tree .groups rect{fill:var(--groups)}.tree .union rect{fill:var(--soft)}
.tree .passed rect,.tree .tested rect{stroke-dasharray:4 3}
.line{fill:none;stroke:var(--quiet);stroke-width:1.2}
.line.guard{stroke:var(--fg);stroke-width:2.4}.line.groups{stroke-dasharray:5 4}
.line.range{stroke:var(--blue);stroke-dasharray:5 4}
.line.feeds{stroke:var(--green);stroke-dasharray:2 3}.line.less{stroke:var(--red);stroke-dasharray:2 3}
.line.reads{stroke-dasharray:2 3}
@media(max-width:40rem){main{padding:.6rem}section{padding:.8rem}.count{font-size:1.8rem}
.costs thead{display:none}.costs tr{display:grid;grid-template-columns:1fr auto;border-bottom:1px solid var(--edge);
padding:.3rem 0}.costs td{border:0;padding:0}.costs td:nth-child(3){grid-column:1/3;color:var(--quiet)}}
@media print{section{break-inside:avoid}}
""".replace("\n", "")

package chartsvg

// Style is the style sheet of a drawing, for light and dark pages. A page may set its variables.
const Style = `
svg.chart{--page:#fff;--ink:#1b2430;--muted:#5d6778;--edge:#748094;--border:#8a94a6;--state:#fff;--body:#f4f6fa;--deep:#e9edf3;--strip:#dfe5ed;
--done:#1a7f37;--error:#b42318;--after:#8a5a00;--accent:#0b62d6;--tint:#dcebfd;--seen:#eff6ff;
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px}
@media (prefers-color-scheme:dark){svg.chart{--page:#11151b;--ink:#e8ebf0;--muted:#9aa4b4;--edge:#7d899c;--border:#6f7b8e;
--state:#181e27;--body:#1a202a;--deep:#212936;--strip:#2b3543;--done:#5fc77f;--error:#ff8a80;--after:#e3ab45;--accent:#6cb0ff;--tint:#123a6b;--seen:#17283e}}
.chart .page{fill:var(--page)}
.chart text{fill:var(--ink)}
.chart .name{font-size:13px}
.chart .compound>.name,.chart .parallel>.name{font-weight:bold}
.chart .muted,.chart .guard{fill:var(--muted)}
.chart .done{fill:var(--done)}
.chart .error text.error,.chart .error{fill:var(--error)}
.chart .after{fill:var(--after)}
.chart .state .border{fill:var(--state);stroke:var(--border);stroke-width:1.2}
.chart .state .inner{fill:none;stroke:var(--border)}
.chart .compound .border,.chart .parallel .border{fill:none}
.chart .body{fill:var(--body)}
.chart .ground2 .body{fill:var(--deep)}
.chart .strip{fill:var(--strip)}
.chart .region .body{fill:none}
.chart .region .border{stroke-dasharray:6 4}
.chart .any .border,.chart .again .border{stroke-dasharray:2 3}
.chart .any .name,.chart .again .name{font-style:italic;fill:var(--muted)}
.chart .failed .border,.chart .failed .inner{stroke:var(--error)}
.chart .dot{fill:var(--ink)}
.chart .dot-line{stroke:var(--ink);stroke-width:1.2;fill:none}
.chart .edge .line{fill:none;stroke:var(--edge);stroke-width:1.3}
.chart .edge .head{fill:var(--edge)}
.chart .edge.entry .line{stroke-dasharray:3 3}
.chart .edge.error .line{stroke:var(--error)}
.chart .edge.error .head{fill:var(--error)}
.chart .edge text{paint-order:stroke;stroke:var(--page);stroke-width:5px;stroke-linejoin:round}
.chart .edge.ground1 text{stroke:var(--body)}
.chart .edge.ground2 text{stroke:var(--deep)}
.chart .visited:not(.compound):not(.parallel) .border{fill:var(--seen);stroke:var(--accent)}
.chart .active .border{stroke:var(--accent);stroke-width:2.4}
.chart .active:not(.compound):not(.parallel) .border{fill:var(--tint)}
.chart .failed.failed .border{stroke:var(--error)}
.chart .active .name{font-weight:bold}
.chart .edge.taken .line{stroke:var(--accent);stroke-width:2.4}
.chart .edge.taken .head{fill:var(--accent)}
.chart .badge .border{fill:var(--accent)}
.chart .badge .count{fill:var(--page);font-weight:bold}
`

#include "tools/report.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/svg.h"

namespace colonnade::tools {
namespace {

constexpr char kStyle[] = R"css(
:root{color-scheme:light dark;--paper:#fff;--panel:#f6f8fa;--ink:#1f2328;--muted:#59636e;--rule:#d1d9e0}
@media screen and (prefers-color-scheme:dark){:root{--paper:#0d1117;--panel:#161b22;--ink:#e6edf3;--muted:#9da7b3;--rule:#3d444d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px 28px 64px;max-width:1280px;background:var(--paper);color:var(--ink);font:15px/1.5 Helvetica,Arial,sans-serif}
h1{margin:0;font-size:26px;line-height:1.25}h2{margin:44px 0 8px;padding-bottom:6px;border-bottom:1px solid var(--rule);font-size:19px}
p{margin:8px 0;max-width:80ch}.muted,figcaption,caption{color:var(--muted)}
nav{margin:14px 0 0;font-size:14px}nav a{margin-right:16px;color:inherit}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin:22px 0 0}
dl div{padding:12px 14px;border:1px solid var(--rule);border-radius:8px;background:var(--panel)}
dt{color:var(--muted);font-size:13px}dd{margin:2px 0 0;font-size:20px;font-weight:bold;overflow-wrap:anywhere}
figure{margin:18px 0}figcaption{margin:0 0 6px;font-size:14px}figure>div{overflow-x:auto}
figure>div>svg{display:block;max-width:100%;height:auto}
table{border-collapse:collapse;margin:16px 0;font-size:14px;font-variant-numeric:tabular-nums}
caption{padding-bottom:6px;text-align:left}th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}thead th{color:var(--muted);font-weight:normal}tbody th{font-weight:normal}
pre{padding:12px 14px;overflow-x:auto;border:1px solid var(--rule);border-radius:8px;background:var(--panel);font:13px/1.45 monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.tools{display:flex;flex-wrap:wrap;gap:6px;align-items:baseline;min-height:30px;font-size:13px}
.tools button{padding:2px 10px;border:1px solid var(--rule);border-radius:6px;background:var(--panel);color:inherit;font:inherit;cursor:pointer}
.bars{cursor:grab}.bars rect:hover{opacity:.65}
@page{size:A4 landscape;margin:12mm}@page upright{size:A4 portrait;margin:12mm}
@media print{body{max-width:none;padding:0;font-size:11px}nav,.tools{display:none}h2{margin-top:22px;break-after:avoid}
figcaption,table{font-size:11px}dt{font-size:11px}dd{font-size:16px}p{max-width:120ch}section>p{break-after:avoid}
figure,table,dl,pre{break-inside:avoid}figure>div{overflow:visible}figure>div>svg{max-height:145mm}pre{font-size:9px;columns:2}
section:first-child svg{max-height:95mm}section:has(figure.long){page:upright}figure.long>div>svg{max-height:240mm}
figure.tall{break-inside:auto}figure.tall>div>svg{max-height:none}
figure.cut>div{display:none}figure.cut>.paper{display:block}.paper>svg{break-inside:avoid}
.rows>table{break-inside:auto;margin:0}.rows{columns:3;column-gap:8mm;margin:16px 0}tr{break-inside:avoid}}
@media screen{.paper{display:none}}
)css";

// The height of an upright page of A4 in its widths, and what the first has below a heading.
constexpr double kPageHeight = 1.42, kFirstPageHeight = 1.22;
constexpr size_t kManyRows = 40, kFewColumns = 4;  // such a table stands in several columns on paper

// Zooms by buttons, by a double click and by the wheel with Ctrl; moves by dragging; says what is below the mouse.
constexpr char kScript[] = R"js(
for (const svg of document.querySelectorAll('figure.timeline svg:not(.bars)')) {
  const bars = svg.querySelector('.bars'), ticks = svg.querySelector('.ticks');
  if (!bars) continue;
  const [end, left, width, top, bottom] = ['end', 'left', 'width', 'top', 'bottom'].map(name => Number(ticks.dataset[name]));
  const all = [...bars.querySelectorAll('rect')].map(rect => [rect, Number(rect.getAttribute('x')), Number(rect.getAttribute('width'))]);
  let from = 0, to = width;
  const make = (name, attributes, text) => {
    const element = document.createElementNS(svg.namespaceURI, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text) element.textContent = text;
    ticks.append(element);
  };
  const draw = () => {
    const scale = width / (to - from);
    for (const [rect, x, w] of all) {
      const seen = x + w >= from && x <= to;
      rect.style.display = seen ? '' : 'none';
      if (!seen) continue;
      rect.setAttribute('x', (x - from) * scale);
      rect.setAttribute('width', Math.max(w * scale, 0.4));
    }
    ticks.replaceChildren();
    const first = from / width * end, last = to / width * end;
    let step = Math.pow(10, Math.floor(Math.log10((last - first) / 4)));
    while ((last - first) / step > 10) step *= (last - first) / step > 20 ? 5 : 2;
    for (let i = Math.ceil(first / step); i * step <= last; ++i) {
      const x = left + (i * step - first) / (last - first) * width;
      make('line', {x1: x, x2: x, y1: top - 4, y2: bottom, class: 'RULE', 'stroke-width': 1});
      make('text', {x, y: top - 9, 'text-anchor': 'middle', 'font-size': 10.5, class: 'MUTED'},
           Number((i * step).toPrecision(6)) + (i * step === 0 ? ' ms' : ''));
    }
  };
  const zoom = (factor, at) => {
    const size = Math.min(Math.max((to - from) * factor, width / 5000), width);
    const part = (at - from) / (to - from);
    from = Math.min(Math.max(at - part * size, 0), width - size);
    to = from + size;
    draw();
  };
  const place = event => {
    const box = bars.getBoundingClientRect();
    return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
  };
  const tools = document.createElement('div'), says = document.createElement('span');
  tools.className = 'tools';
  says.className = 'muted';
  says.setAttribute('aria-live', 'polite');
  const hint = 'drag to move, double click or Ctrl and wheel to zoom';
  says.textContent = hint;
  for (const [label, factor] of [['zoom in', 0.5], ['zoom out', 2], ['all', 1e9]]) {
    const button = document.createElement('button');
    button.textContent = label;
    button.onclick = () => zoom(factor, (from + to) / 2);
    tools.append(button);
  }
  tools.append(says);
  svg.closest('figure').insertBefore(tools, svg.parentElement);
  bars.addEventListener('mouseover', event => {
    const title = event.target.querySelector && event.target.tagName === 'rect' && event.target.querySelector('title');
    says.textContent = title ? title.textContent : hint;
  });
  bars.addEventListener('dblclick', event => zoom(0.5, place(event)));
  bars.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, place(event));
  }, {passive: false});
  let held = null;
  svg.addEventListener('pointerdown', event => { held = event.clientX; });
  window.addEventListener('pointerup', () => { held = null; });
  window.addEventListener('pointermove', event => {
    if (held === null) return;
    const by = (held - event.clientX) / bars.getBoundingClientRect().width * (to - from);
    held = event.clientX;
    const size = to - from;
    from = Math.min(Math.max(from + by, 0), width - size);
    to = from + size;
    draw();
  });
}
)js";

std::string EscapedLines(absl::string_view text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(Escaped(line));
  return absl::StrJoin(lines, "\n");
}

std::string IdOf(size_t section) { return absl::StrCat("section-", section + 1); }

struct PictureSize {
  double width = 0, height = 0;
  // On one page of A4 it would be too small to be read.
  bool is_tall() const { return height > 2 * width; }
};

// 0 x 0 where the picture does not say it.
PictureSize SizeOf(absl::string_view svg) {
  PictureSize size;
  const std::vector<absl::string_view> box = absl::StrSplit(svg.substr(0, svg.find('>')), absl::ByAnyChar(" \""));
  const auto sizes = std::find(box.begin(), box.end(), "viewBox=");
  if (std::distance(sizes, box.end()) < 5) return size;
  const bool is_known = absl::SimpleAtod(sizes[3], &size.width) && absl::SimpleAtod(sizes[4], &size.height);
  return is_known ? size : PictureSize{};
}

// Where each page of a tall picture begins, and where the last ends: as late as a cut allows.
std::vector<double> PagesOf(const PictureSize& size, const std::vector<double>& cuts) {
  std::vector<double> pages = {0};
  while (pages.back() < size.height) {
    const double end = pages.back() + size.width * (pages.size() == 1 ? kFirstPageHeight : kPageHeight);
    double next = end;
    if (end >= size.height) {
      next = size.height;
    } else {
      for (double cut : cuts) {
        if (cut > pages.back() && cut <= end) next = cut;
      }
    }
    pages.push_back(next);
  }
  return pages;
}

// The picture `id` again, in pieces as high as pages of paper.
std::string OnPaper(const std::string& id, const PictureSize& size, const std::vector<double>& cuts) {
  std::string html = "<div class=\"paper\">\n";
  const std::vector<double> pages = PagesOf(size, cuts);
  for (size_t page = 0; page + 1 < pages.size(); ++page) {
    const double height = pages[page + 1] - pages[page];
    absl::StrAppendFormat(
        &html, "<svg viewBox=\"0 %g %g %g\" width=\"%g\" height=\"%g\" aria-hidden=\"true\"><use href=\"#%s\"/></svg>\n",
        pages[page], size.width, height, size.width, height, id);
  }
  return html + "</div>\n";
}

void Append(const ReportFigure& figure, std::string& html) {
  const bool is_timeline = absl::StrContains(figure.svg, "class=\"bars\"");
  const PictureSize size = SizeOf(figure.svg);
  const bool is_tall = figure.is_long && size.is_tall(), is_cut = is_tall && !figure.cuts.empty();
  const std::string id = absl::StrCat("picture-", html.size());  // no other begins there
  // HTML knows SVG without its name; so the page names no address at all. Where paper makes a picture smaller, it stays at
  // the left.
  std::string svg =
      absl::StrReplaceAll(figure.svg, {{" xmlns=\"http://www.w3.org/2000/svg\"", " preserveAspectRatio=\"xMinYMin\""}});
  if (is_cut) {
    svg.insert(svg.rfind("</svg>"), "</g>");
    svg.insert(svg.find('>') + 1, absl::StrCat("<g id=\"", id, "\">"));
  }
  const std::string kind = is_timeline      ? "timeline"
                           : is_cut         ? "long tall cut"
                           : is_tall        ? "long tall"
                           : figure.is_long ? "long"
                                            : "plot";
  absl::StrAppend(&html, "<figure class=\"", kind, "\">\n<figcaption>", Escaped(figure.caption), "</figcaption>\n<div>", svg,
                  "</div>\n", is_cut ? OnPaper(id, size, figure.cuts) : "", "</figure>\n");
}

void Append(const ReportTable& table, std::string& html) {
  const bool has_many_rows = table.rows.size() >= kManyRows && table.header.size() <= kFewColumns;
  absl::StrAppend(&html, has_many_rows ? "<div class=\"rows\">" : "", "<table>\n");
  if (!table.caption.empty()) absl::StrAppend(&html, "<caption>", Escaped(table.caption), "</caption>\n");
  absl::StrAppend(&html, "<thead><tr>");
  for (const std::string& cell : table.header) absl::StrAppend(&html, "<th scope=\"col\">", Escaped(cell), "</th>");
  absl::StrAppend(&html, "</tr></thead>\n<tbody>\n");
  for (const std::vector<std::string>& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(&html, c == 0 ? "<th scope=\"row\">" : "<td>", Escaped(row[c]), c == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  absl::StrAppend(&html, "</tbody>\n</table>", has_many_rows ? "</div>" : "", "\n");
}

}  // namespace

std::string ToHtml(const Report& report) {
  // The policy keeps the page from loading anything, whatever stands in it.
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      Escaped(report.title), "</title>\n<style>", kStyle, PaintStyles(), "</style>\n</head>\n<body>\n<header>\n<h1>",
      Escaped(report.title), "</h1>\n<p class=\"muted\">", Escaped(report.subtitle), "</p>\n<nav>");
  for (size_t s = 0; s < report.sections.size(); ++s) {
    absl::StrAppend(&html, "<a href=\"#", IdOf(s), "\">", Escaped(report.sections[s].title), "</a>");
  }
  absl::StrAppend(&html, "</nav>\n<dl>\n");
  for (const ReportFact& fact : report.headlines) {
    absl::StrAppend(&html, "<div><dt>", Escaped(fact.name), "</dt><dd>", Escaped(fact.value), "</dd></div>\n");
  }
  absl::StrAppend(&html, "</dl>\n</header>\n<main>\n");
  for (size_t s = 0; s < report.sections.size(); ++s) {
    const ReportSection& section = report.sections[s];
    absl::StrAppend(&html, "<section id=\"", IdOf(s), "\">\n<h2>", Escaped(section.title), "</h2>\n");
    if (!section.text.empty()) absl::StrAppend(&html, "<p>", Escaped(section.text), "</p>\n");
    for (const ReportFigure& figure : section.figures) Append(figure, html);
    for (const ReportTable& table : section.tables) Append(table, html);
    if (!section.listing.empty()) absl::StrAppend(&html, "<pre>", EscapedLines(section.listing), "</pre>\n");
    absl::StrAppend(&html, "</section>\n");
  }
  const std::string script =
      absl::StrReplaceAll(kScript, {{"RULE", StrokeClass(Paint::kRule)}, {"MUTED", FillClass(Paint::kMuted)}});
  return absl::StrCat(html, "</main>\n<script>", script, "</script>\n</body>\n</html>\n");
}

}  // namespace colonnade::tools

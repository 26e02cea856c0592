// A report as one page of HTML: it loads nothing, is readable without its script, follows the light or dark colours that the
// reader prefers, and prints on paper. The script lets timelines be zoomed. Any thread.
#ifndef COLONNADE_TOOLS_REPORT_H_
#define COLONNADE_TOOLS_REPORT_H_

#include <string>
#include <vector>

namespace colonnade::tools {

struct ReportFigure {
  std::string caption;
  std::string svg;             // as tools/ draws it: it is not escaped
  bool is_long = false;        // on paper it has an upright page of its own, or several
  std::vector<double> cuts{};  // heights at which it may go on on the next
};

struct ReportTable {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // of as many cells; all but the first of a row are numbers
};

struct ReportFact {
  std::string name, value;
};

// What it has, in this order.
struct ReportSection {
  std::string title;
  std::string text;
  std::vector<ReportFigure> figures;
  std::vector<ReportTable> tables;
  std::string listing;  // lines as they are, such as a file's
};

struct Report {
  std::string title;                  // "two_column under hybrid on 4 devices"
  std::string subtitle;               // who made it, of what, when
  std::vector<ReportFact> headlines;  // the figures that one looks for first
  std::vector<ReportSection> sections;
};

// Returns the page; all text is escaped.
std::string ToHtml(const Report& report);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_REPORT_H_

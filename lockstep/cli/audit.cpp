#include "lockstep/formats/audit.h"

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/report_internal.h"

namespace lockstep::cli {
namespace {

Json report_json(const formats::AuditReport& report, const std::string& path) {
  Json out = {{"path", path}, {"kind", report.kind}, {"versions", report.versions}, {"findings", Json::array()}};
  for (const formats::AuditFinding& finding : report.findings) {
    out["findings"].push_back({{"risk", std::string(formats::risk_name(finding.risk))},
                               {"where", finding.where},
                               {"detail", finding.detail}});
  }
  return out;
}

void print_report(const formats::AuditReport& report, const std::string& path) {
  for (const std::string& version : report.versions) print_line("requires       {}", version);
  for (const formats::AuditFinding& finding : report.findings) {
    print_line("{:<14} {}: {}", formats::risk_name(finding.risk), finding.where, finding.detail);
  }
  print_line("{}: {} ({})", path,
             report.findings.empty() ? "nothing found" : fmt::format("{} findings", report.findings.size()),
             report.kind);
}

}  // namespace

int audit(const Arguments& arguments) {
  const std::string path = arguments.text("PATH");
  const formats::AuditReport report = formats::audit(path);
  if (arguments.has("--json")) {
    fmt::print("{}\n", dump_json(report_json(report, path)));
  } else {
    print_report(report, path);
  }
  return report.findings.empty() ? 0 : kFindings;
}

}  // namespace lockstep::cli

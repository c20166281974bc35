// The parts of an audit: one function for each kind of content.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/json.h"
#include "lockstep/formats/audit.h"

namespace tensorflow {
class GraphDef;
class MetaGraphDef;
}  // namespace tensorflow

namespace lockstep::formats {

// Collects findings up to a limit, so that a file of millions of them gives a report of readable size.
class Auditor {
 public:
  explicit Auditor(AuditReport& report) : report_(report) {}

  void add(AuditFinding::Risk risk, std::string where, std::string detail);
  void add_version(std::string version);

  // A Keras config, a compile config or a training config; `where` names the text.
  void config(const Json& config, const std::string& where);
  // Nodes of a graph and of its functions.
  void graph(const tensorflow::GraphDef& graph, const std::string& where);
  void meta_graph(const tensorflow::MetaGraphDef& graph, const std::string& where);
  // A text that a config or a graph contains, if it is a path or a URL.
  void path_text(std::string_view text, const std::string& where);

 private:
  AuditReport& report_;
};

// Whether Keras 3 or Keras 2 has a public class of this name, for configs that do not name a module.
bool is_keras_class(std::string_view name);

// "../x", "/x", "C:\x" or "a//../../x": a path that leaves the folder it is relative to.
bool leaves_folder(std::string_view path);

}  // namespace lockstep::formats

// The actions that a file could take if a program ran it, found without running or trusting any of it: code in the
// file, classes and operations that code from elsewhere must provide, graph operations that reach beyond the model, and
// references to other files. lockstep itself executes none of these: loading rejects Lambda functions, pickled data and
// unknown classes and operations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::formats {

struct AuditFinding {
  enum class Risk {
    kCode,          // Python code or pickled objects in the file: Lambda, TorchModuleWrapper, object arrays
    kCustomObject,  // a class, function or operation that Keras and TensorFlow do not have
    kPython,        // an operation that calls Python
    kFileRead,      // reads a file whose name the model chooses
    kFileWrite,
    kNetwork,
    kMemory,        // takes memory without bound, or far more than the file's size
    kExternalLink,  // values in another file
    kPath,          // an absolute path, a URL, or a path that leaves the artifact
  };
  Risk risk = Risk::kCode;
  std::string where;   // "config.json: config.layers[2]", "saved_model.pb: function f, node read"
  std::string detail;  // one sentence
};

// "code", "custom_object", "python", "file_read", "file_write", "network", "memory", "external_link", "path".
std::string_view risk_name(AuditFinding::Risk risk) noexcept;

struct AuditReport {
  std::string kind;  // as kind_name(), or "pickle"
  std::vector<std::string>
      versions;  // required or written by: "Keras 3.15.0", "TensorFlow 2.21.0", "GraphDef 12 or later"
  std::vector<AuditFinding> findings;  // in the order of the file; at most 1000
};

// Reads configs, graphs and metadata of the artifact at `path`, but no weights. Throws as detect() does, and DataLoss
// for an artifact that is damaged.
AuditReport audit(const std::string& path, io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats

// CSVLogger: one row an epoch.
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/keras/callbacks/callback.h"

namespace lockstep::callbacks {

struct CSVLoggerOptions {
  FieldNamesOnly names_only = {};
  std::string filename = {};
  std::string separator = ",";
  bool append = false;
};

// Rows of epoch (from 0) and the logs sorted by name, as Python's csv module writes them. The columns are
// those of the first epoch; when it had no val_ values there is a val_ column for each, filled with NA
// until there are. With append the header is left out when the file has content. Each row is on disk
// when the epoch ends. Throws InvalidArgument for a separator that is not one character.
keras::CallbackPtr CSVLogger(CSVLoggerOptions options);
inline keras::CallbackPtr CSVLogger(const TextArg& filename, CSVLoggerOptions options = {}) {
  options.filename = filename;
  return CSVLogger(std::move(options));
}

}  // namespace lockstep::callbacks

// The texts that workers send to each other. Received ones come from the network and may have any content.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/formats/tensor_data.h"

namespace lockstep::collectives {

// The registration of a worker at the rendezvous.
struct Registration {
  std::string version;               // of lockstep
  std::vector<std::string> members;  // names by rank

  // Differs from call to call, so that two processes that register one rank at the same time do not take each other's
  // registration for their own.
  std::string text() const;
  // Why the worker `rank`, which registered with `other`, cannot take part in the job of rank 0, whose registration
  // this is. Empty if the two are equal.
  std::string difference(const std::string& other, int rank) const;
};

// Names and values: "<size>:<name><size>:<value>", and so on.
std::string pack_facts(const std::map<std::string, std::string>& facts);
// Throws DataLoss for anything else.
std::map<std::string, std::string> unpack_facts(const std::string& text);

// A tensor: a line of JSON, and its elements.
std::string pack_tensor(const formats::TensorData& tensor);
// Throws DataLoss for a malformed message, or one whose shape does not fit its elements.
formats::TensorData unpack_tensor(const std::string& text);

}  // namespace lockstep::collectives

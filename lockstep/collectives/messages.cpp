#include "lockstep/collectives/messages_internal.h"

#include <charconv>
#include <random>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/fingerprint_internal.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kLongest = 2000;  // of a part of a message
constexpr std::size_t kMostNames = 64;  // names in a registration

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

[[noreturn]] void malformed(const char* what) {
  throw_data_loss(fmt::format("a worker sent {} that this version of lockstep cannot read", what));
}

std::size_t size_of(const Json& value) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0))
    malformed("a tensor");
  return value.get<std::size_t>();
}

// The names, or of a large cluster their fingerprint: rank 0 reads the registrations of all ranks.
Json cluster_of(const std::vector<std::string>& members) {
  if (members.size() <= kMostNames) return members;
  std::uint64_t fingerprint = members.size();
  for (const std::string& name : members) fingerprint = io::fingerprint_cat(fingerprint, io::fingerprint64(name));
  return {{"workers", members.size()}, {"fingerprint", fmt::format("{:016x}", fingerprint)}};
}

}  // namespace

std::string Registration::text() const {
  std::random_device random;  // draw_entropy() may give all processes the same numbers
  const std::string process = fmt::format("{:08x}{:08x}", random(), random());
  return dump_json(Json{{"version", version}, {"members", cluster_of(members)}, {"process", process}});
}

std::string Registration::difference(const std::string& other, int rank) const {
  const std::string& name = members[static_cast<std::size_t>(rank)];
  Json theirs;
  try {
    theirs = parse_json(other, name);
  } catch (const Error&) {  // reported like any other text that is not a registration
  }
  if (!theirs.is_object() || !theirs.contains("version") || !theirs.contains("members")) {
    return fmt::format("{} does not use lockstep's protocol", name);
  }
  if (theirs["version"] != version) {
    return fmt::format("{} runs lockstep {}, {} runs {}; run the same version everywhere", name,
                       shown(theirs["version"]), members[0], shown(version));
  }
  if (const Json own = cluster_of(members); theirs["members"] != own) {
    return fmt::format("{} was started for the cluster {}, {} for {}; give all workers the same cluster", name,
                       shown(theirs["members"]), members[0], shown(own));
  }
  return {};
}

std::string pack_facts(const std::map<std::string, std::string>& facts) {
  std::string out;
  for (const auto& [name, value] : facts) {
    for (const std::string& part : {name, value}) out += fmt::format("{}:{}", part.size(), part);
  }
  return out;
}

std::map<std::string, std::string> unpack_facts(const std::string& text) {
  std::map<std::string, std::string> facts;
  std::size_t at = 0;
  const auto part = [&] {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
    const auto colon = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || colon >= text.size() || text[colon] != ':' || size > text.size() - colon - 1) {
      malformed("a list of options");
    }
    at = colon + 1 + size;
    return text.substr(colon + 1, size);
  };
  while (at < text.size()) {
    std::string name = part();
    facts[std::move(name)] = part();
  }
  return facts;
}

std::string pack_tensor(const formats::TensorData& tensor) {
  Json head{{"dtype", std::string(dtype_name(tensor.dtype))}, {"shape", tensor.shape.dims()}};
  std::string bytes(io::as_text(tensor.bytes));
  if (tensor.dtype == DType::kString) {
    head["sizes"] = Json::array();
    for (const std::string& text : tensor.strings) {
      head["sizes"].push_back(text.size());
      bytes += text;
    }
  }
  return dump_json(head) + '\n' + bytes;
}

formats::TensorData unpack_tensor(const std::string& text) {
  const std::size_t line = text.find('\n');
  if (line == std::string::npos) malformed("a tensor");
  const Json head = parse_json(std::string_view(text).substr(0, line), "the tensor that a worker sent");
  if (!head.is_object() || !head.contains("dtype") || !head["dtype"].is_string() || !head.contains("shape") ||
      !head["shape"].is_array()) {
    malformed("a tensor");
  }
  formats::TensorData tensor;
  tensor.dtype = parse_dtype(head["dtype"].get<std::string>()).value_or(DType::kInvalid);
  for (const Json& dim : head["shape"]) {
    const std::size_t size = size_of(dim);
    if (size > INT64_MAX) malformed("a tensor");
    tensor.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto count = tensor.shape.num_elements();
  if (!count) malformed("a tensor");
  auto rest = io::as_bytes(std::string_view(text).substr(line + 1));
  if (tensor.dtype == DType::kString) {
    if (!head.contains("sizes") || !head["sizes"].is_array() ||
        head["sizes"].size() != static_cast<std::size_t>(*count)) {
      malformed("a tensor");
    }
    for (const Json& each : head["sizes"]) {
      const std::size_t size = size_of(each);
      if (size > rest.size()) malformed("a tensor");
      tensor.strings.emplace_back(io::as_text(rest.first(size)));
      rest = rest.subspan(size);
    }
    if (!rest.empty()) malformed("a tensor");
    return tensor;
  }
  const std::size_t width = dtype_size(tensor.dtype);
  if (width == 0 || rest.size() % width != 0 || rest.size() / width != static_cast<std::size_t>(*count))
    malformed("a tensor");
  return formats::TensorData::copy_of(tensor.dtype, tensor.shape, rest);
}

}  // namespace lockstep::collectives

#include "lockstep/collectives/tensors.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/ops/slices.h"
#include "lockstep/tensor/aten.h"

namespace lockstep::collectives {
namespace {

// Tensors that travel together.
struct Pack {
  std::vector<std::size_t> members;
  std::int64_t elements = 0;
  at::ScalarType type = at::kFloat;
  at::Tensor buffer;
  std::unique_ptr<Pending> pending;
};

at::ScalarType travelling_type(at::ScalarType type, Compression compression) {
  if (type == at::kBool) return at::kByte;
  if (type != at::kFloat || compression == Compression::kNone) return type;
  return compression == Compression::kFloat16 ? at::kHalf : at::kBFloat16;
}

// In order, so that all ranks make the same packs.
std::vector<Pack> plan(const Tensors& values, std::int64_t bytes_per_pack) {
  std::vector<Pack> packs;
  std::map<at::ScalarType, std::size_t> open;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) continue;
    const at::Tensor& value = aten(values[i]);
    const std::int64_t room = std::max<std::int64_t>(1, bytes_per_pack / static_cast<std::int64_t>(value.element_size()));
    const auto known = open.find(value.scalar_type());
    if (known == open.end() || packs[known->second].elements + value.numel() > room) {
      open[value.scalar_type()] = packs.size();
      packs.emplace_back().type = value.scalar_type();
    }
    Pack& pack = packs[open[value.scalar_type()]];
    pack.members.push_back(i);
    pack.elements += value.numel();
  }
  return packs;
}

// The slices of a gradient on all ranks, in the order of the ranks.
IndexedSlices gather_slices(Communicator& group, const IndexedSlices& own, bool idle) {
  const auto of_all = [&](const Tensor& part) {
    std::vector<at::Tensor> parts;
    const at::Tensor rows = idle ? aten(part).narrow(0, 0, 0) : aten(part);
    for (const Tensor& gathered : gather(group, wrap(rows))) parts.push_back(aten(gathered));
    return wrap(at::cat(parts));
  };
  const Tensor indices = of_all(own.indices);
  return {indices, of_all(own.values)};
}

}  // namespace

void sum(Communicator& group, Tensors& values, const SumOptions& options) {
  std::vector<Pack> packs = plan(values, options.bytes_per_pack);
  const std::size_t first_always = values.size() - std::min(values.size(), options.never_idle);
  for (Pack& pack : packs) {
    pack.buffer = at::empty({pack.elements}, at::TensorOptions().dtype(travelling_type(pack.type, options.compression)));
    std::int64_t at = 0;
    for (const std::size_t i : pack.members) {
      const at::Tensor& value = aten(values[i]);
      at::Tensor place = pack.buffer.narrow(0, at, value.numel());
      if (options.idle && i < first_always) {
        place.zero_();
      } else {
        place.view(value.sizes()).copy_(value.detach());
      }
      at += value.numel();
    }
    pack.pending = group.all_reduce_async(wrap(pack.buffer));
  }
  const Tensors given = values;
  for (Pack& pack : packs) {
    pack.pending->wait();
    const at::Tensor result = pack.buffer.to(pack.type);
    std::int64_t at = 0;
    for (const std::size_t i : pack.members) {
      const auto sizes = aten(values[i]).sizes().vec();
      const std::int64_t count = aten(values[i]).numel();
      values[i] = wrap(result.narrow(0, at, count).view(sizes));
      at += count;
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (const auto& slices = ops::slices_of(given[i])) ops::set_slices(values[i], gather_slices(group, *slices, options.idle && i < first_always));
  }
}

Tensors gather(Communicator& group, const Tensor& value, const std::string& what) {
  std::string bytes;
  if (value.defined()) {
    const at::Tensor data = aten(value).detach().contiguous();
    bytes = dump_json(Json{{"type", static_cast<int>(data.scalar_type())}, {"shape", data.sizes().vec()}});
    bytes += '\n';
    bytes.append(static_cast<const char*>(data.data_ptr()), data.nbytes());
  }
  Tensors out;
  for (const std::string& text : labelled_gather(group, what, bytes)) {
    if (text.empty()) {
      out.emplace_back();
      continue;
    }
    const std::size_t line = text.find('\n');
    const Json head = Json::parse(text.substr(0, line));
    const at::Tensor data = at::empty(head["shape"].get<std::vector<std::int64_t>>(), static_cast<at::ScalarType>(head["type"].get<int>()));
    if (data.nbytes() != text.size() - line - 1) throw_internal("a gathered tensor has another size than its shape tells");
    std::memcpy(data.data_ptr(), text.data() + line + 1, data.nbytes());
    out.push_back(wrap(data));
  }
  return out;
}

}  // namespace lockstep::collectives

// The scripts of characters, by ICU's numbers.
#include <algorithm>
#include <iterator>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

struct ScriptRun {
  std::int32_t first, script;
};
constexpr ScriptRun kScriptRuns[] = {
#include "lockstep/ops/unicode_scripts.inc"
};
constexpr std::int32_t kLastCharacter = 0x10ffff;

std::int32_t script_of(std::int32_t character) {
  if (character < 0 || character > kLastCharacter) return -1;
  const auto* const after =
      std::upper_bound(std::begin(kScriptRuns), std::end(kScriptRuns), character,
                       [](std::int32_t wanted, const ScriptRun& run) { return wanted < run.first; });
  return std::prev(after)->script;
}

}  // namespace

void register_unicode_scripts(Table& table) {
  table.add("UnicodeScript", same_shape, [](const Call& call) {
    const at::Tensor x = in(call, 0).contiguous();
    at::Tensor y = at::empty_like(x);
    const auto* const from = x.const_data_ptr<std::int32_t>();
    std::transform(from, from + x.numel(), y.mutable_data_ptr<std::int32_t>(), script_of);
    return one(y);
  });
}

}  // namespace lockstep::ops

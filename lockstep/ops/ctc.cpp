// Connectionist temporal classification (Graves et al., 2006): the loss, and decoding of its outputs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <ATen/core/grad_mode.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// Lengths of the sequences of inputs [time, batch, classes].
Ints sequence_lengths(const Call& call, int i) {
  const at::Tensor& x = in(call, 0);
  Ints lengths = ints_in(call, i);
  if (static_cast<std::int64_t>(lengths.size()) != x.size(1))
    throw_invalid_argument(fmt::format("sequence_length has {} entries for {} sequences", lengths.size(), x.size(1)));
  for (std::int64_t& length : lengths) {
    if (length > x.size(0) || (length < 0 && call.name() == "CTCLoss"))
      throw_invalid_argument(fmt::format("invalid sequence_length: found {}, expected 0 to {}", length, x.size(0)));
    length = std::max<std::int64_t>(length, 0);  // to decoders
  }
  if (x.size(2) < 1) throw_invalid_argument("inputs must have at least one class");
  return lengths;
}

// One decoded sequence for each entry of the batch, as the three parts of a sparse tensor.
Tensors as_sparse_labels(const std::vector<Ints>& sequences) {
  Ints indices, values;
  std::int64_t longest = 0;
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    for (std::size_t i = 0; i < sequences[b].size(); ++i) {
      indices.push_back(static_cast<std::int64_t>(b)), indices.push_back(static_cast<std::int64_t>(i));
      values.push_back(sequences[b][i]);
    }
    longest = std::max(longest, static_cast<std::int64_t>(sequences[b].size()));
  }
  return {wrap(int64_tensor(indices, {static_cast<std::int64_t>(values.size()), 2})), wrap(int64_tensor(values)),
          wrap(int64_tensor({static_cast<std::int64_t>(sequences.size()), longest}))};
}

Tensors greedy_decoder(const Call& call) {
  const Ints lengths = sequence_lengths(call, 1);
  const at::Tensor x = in(call, 0).to(at::kDouble).contiguous();
  const std::int64_t batch = x.size(1), classes = x.size(2);
  std::int64_t blank = call.attr<std::int64_t>("blank_index");
  if (blank < 0) blank += classes;
  if (blank < 0 || blank >= classes)
    throw_invalid_argument(fmt::format("blank_index {} of {} classes", blank, classes));
  std::vector<Ints> sequences(static_cast<std::size_t>(batch));
  at::Tensor score = at::zeros({batch, 1}, at::kDouble);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t previous = -1;
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t) {
      const double* const row = x.const_data_ptr<double>() + (t * batch + b) * classes;
      const std::int64_t best = std::max_element(row, row + classes) - row;
      score.mutable_data_ptr<double>()[b] -= row[best];
      if (best != blank && !(call.attr<bool>("merge_repeated") && best == previous))
        sequences[static_cast<std::size_t>(b)].push_back(best);
      previous = best;
    }
  }
  Tensors out = as_sparse_labels(sequences);
  out.push_back(wrap(score.to(in(call, 0).scalar_type())));
  return out;
}

// ---- beam search over prefixes
// ---------------------------------------------------------------------------------------
constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// Logarithms of the probabilities that the steps so far give a prefix, ending in a blank or in its last label.
struct Score {
  double blank = kNever, label = kNever, total = kNever;
  Score() = default;
  Score(double of_blank, double of_label) : blank(of_blank), label(of_label), total(log_sum(of_blank, of_label)) {}
};
// A prefix of labels; its last one and the number of what precedes it. -1: the empty prefix. Its scores after this step
// and before it; one that is not in the beam has no score.
struct Prefix {
  std::int64_t parent = -1, label = -1;
  Score now, before;
  bool in_beam() const { return now.total != kNever; }
};

// TensorFlow's search, whose results depend on its order where the beam is narrow: the prefixes of the beam come first,
// then those that are one label longer push out the worst ones, which may come back without what else led to them.
class BeamSearch {
 public:
  BeamSearch(std::int64_t width, std::int64_t classes) : width_(width), classes_(classes) {
    prefixes_.emplace_back().now = Score{0, kNever};
    beam_.push_back(0);
  }

  // `row`: the logits of one step; the last class is the blank.
  void step(const double* row) {
    const double highest = *std::max_element(row, row + classes_);
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(row[c] - highest);
    const double norm = highest + std::log(sum), blank = row[classes_ - 1] - norm;
    MemoryLimit::check(static_cast<std::int64_t>(beam_.size()) * classes_, 2 * sizeof(Prefix));
    finish();
    const std::vector<std::int64_t> last_beam = std::move(beam_);
    beam_.clear();
    for (const std::int64_t b : last_beam) at(b).before = at(b).now;
    for (const std::int64_t b : last_beam) {
      Prefix& prefix = at(b);
      double label = prefix.now.label;
      if (prefix.parent >= 0) {
        const Prefix& parent = at(prefix.parent);
        if (parent.in_beam())
          label = log_sum(label, prefix.label == parent.label ? parent.before.blank : parent.before.total);
        label += row[prefix.label] - norm;
      }
      prefix.now = Score{prefix.before.total + blank, label};
      push(b);
    }
    for (const std::int64_t b : last_beam) {
      const Score before = at(b).before;
      if (!is_candidate(before.total)) continue;
      for (std::int64_t c = 0; c + 1 < classes_; ++c) {
        const auto known = children_.find({b, c});
        if (known != children_.end() && at(known->second).in_beam()) continue;
        const Score longer{kNever, row[c] - norm + (c == at(b).label ? before.blank : before.total)};
        if (is_candidate(longer.total)) {
          const std::int64_t added = child(b, c);
          if (is_full()) drop_worst();
          at(added).now = longer;
          push(added);
        } else if (known != children_.end()) {
          at(known->second).now = at(known->second).before = Score();
        }
      }
    }
  }

  // The best prefix comes first from now on.
  void finish() {
    std::sort(beam_.begin(), beam_.end(), [this](std::int64_t a, std::int64_t b) { return is_better(a, b); });
  }

  std::size_t size() const { return beam_.size(); }
  double score(std::size_t path) const { return at(beam_[path]).now.total; }
  Ints labels(std::size_t path, bool merge_repeated) const {
    Ints out;
    std::int64_t previous = -1;
    for (std::int64_t prefix = beam_[path]; prefix > 0; prefix = at(prefix).parent) {
      const std::int64_t label = at(prefix).label;
      if (!merge_repeated || label != previous) out.push_back(label);
      previous = label;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  Prefix& at(std::int64_t prefix) { return prefixes_[static_cast<std::size_t>(prefix)]; }
  const Prefix& at(std::int64_t prefix) const { return prefixes_[static_cast<std::size_t>(prefix)]; }

  std::int64_t child(std::int64_t prefix, std::int64_t label) {
    const auto [entry, fresh] = children_.try_emplace({prefix, label}, static_cast<std::int64_t>(prefixes_.size()));
    if (fresh) {
      Prefix& made = prefixes_.emplace_back();
      made.parent = prefix;
      made.label = label;
    }
    return entry->second;
  }

  // The beam is a heap with its worst prefix first.
  bool is_better(std::int64_t a, std::int64_t b) const { return at(a).now.total > at(b).now.total; }
  bool is_full() const { return static_cast<std::int64_t>(beam_.size()) == width_; }
  bool is_candidate(double total) const {
    return total != kNever && (!is_full() || total > at(beam_.front()).now.total);
  }
  void push(std::int64_t prefix) {
    beam_.push_back(prefix);
    std::push_heap(beam_.begin(), beam_.end(), [this](std::int64_t a, std::int64_t b) { return is_better(a, b); });
  }
  void drop_worst() {
    std::pop_heap(beam_.begin(), beam_.end(), [this](std::int64_t a, std::int64_t b) { return is_better(a, b); });
    at(beam_.back()).now = Score();
    beam_.pop_back();
  }

  const std::int64_t width_, classes_;
  std::vector<Prefix> prefixes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> children_;
  std::vector<std::int64_t> beam_;
};

Tensors beam_search_decoder(const Call& call) {
  const Ints lengths = sequence_lengths(call, 1);
  const at::Tensor x = in(call, 0).to(at::kDouble).contiguous();
  const std::int64_t batch = x.size(1), classes = x.size(2), width = call.attr<std::int64_t>("beam_width");
  const std::int64_t paths = call.attr<std::int64_t>("top_paths");
  if (paths > width) throw_invalid_argument(fmt::format("top_paths {} is more than beam_width {}", paths, width));
  element_count({paths, batch}, sizeof(Ints));
  std::vector<std::vector<Ints>> found(static_cast<std::size_t>(paths),
                                       std::vector<Ints>(static_cast<std::size_t>(batch)));
  at::Tensor scores = at::zeros({batch, paths}, at::kDouble);
  for (std::int64_t b = 0; b < batch; ++b) {
    BeamSearch search(width, classes);
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t)
      search.step(x.const_data_ptr<double>() + (t * batch + b) * classes);
    search.finish();
    if (static_cast<std::int64_t>(search.size()) < paths)
      throw_invalid_argument(fmt::format("there are {} paths, top_paths is {}", search.size(), paths));
    for (std::int64_t p = 0; p < paths; ++p) {
      const auto path = static_cast<std::size_t>(p);
      found[path][static_cast<std::size_t>(b)] = search.labels(path, call.attr<bool>("merge_repeated"));
      scores.mutable_data_ptr<double>()[b * paths + p] = search.score(path);
    }
  }
  Tensors parts[3], out;
  for (const std::vector<Ints>& sequences : found) {
    Tensors made = as_sparse_labels(sequences);
    for (std::size_t i = 0; i < 3; ++i) parts[i].push_back(made[i]);
  }
  for (const Tensors& part : parts) out.insert(out.end(), part.begin(), part.end());
  out.push_back(wrap(scores.to(in(call, 0).scalar_type())));
  return out;
}

// ---- the loss
// --------------------------------------------------------------------------------------------------------
// The loss where each step gives its own label: only blanks may last for several steps. 0 for sequences that are
// too short.
at::Tensor loss_of_each_step(const at::Tensor& logs, const Ints& lengths, const std::vector<Ints>& labels) {
  constexpr double kNever = -1e30;  // not infinite, so that gradients are finite
  const std::int64_t blank = logs.size(2) - 1;
  std::vector<at::Tensor> losses;
  for (std::size_t b = 0; b < labels.size(); ++b) {
    Ints path{blank};
    for (const std::int64_t label : labels[b]) path.insert(path.end(), {label, blank});
    const auto states = static_cast<std::int64_t>(path.size()), steps = lengths[b];
    if (steps == 0 || steps < states / 2) {
      losses.push_back(at::zeros({}, logs.options()));
      continue;
    }
    const at::Tensor own = logs.select(1, static_cast<std::int64_t>(b)).index_select(1, int64_tensor(path));
    const at::Tensor is_label = int64_tensor(path).ne(blank), never = at::full({}, kNever, logs.options());
    const at::Tensor place = at::arange(states);
    at::Tensor scores = at::where(place < 2, own[0], never);
    for (std::int64_t t = 1; t < steps; ++t) {
      const at::Tensor before = at::constant_pad_nd(scores, {2, 0}, kNever);
      scores = own[t] + at::logsumexp(at::stack({at::where(is_label, never, scores), before.slice(0, 1, states + 1),
                                                 at::where(is_label, before.slice(0, 0, states), never)}),
                                      0);
    }
    losses.push_back(-at::logsumexp(scores.slice(0, std::max<std::int64_t>(states - 2, 0)), 0));
  }
  return at::stack(losses);
}

Tensors ctc_loss(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Ints lengths = sequence_lengths(call, 3), indices = ints_in(call, 1), values = ints_in(call, 2);
  const std::int64_t batch = x.size(1), blank = x.size(2) - 1;
  if (in(call, 1).size(1) != 2 || indices.size() != 2 * values.size())
    throw_invalid_argument("labels_indices must have the shape [n, 2], labels_values [n]");
  if (x.numel() == 0) throw_invalid_argument("inputs must not be empty");
  std::vector<Ints> labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t b = indices[2 * i];
    if (b < 0 || b >= batch)
      throw_invalid_argument(fmt::format("labels_indices has row {}, expected [0, {})", b, batch));
    if (values[i] < 0 || values[i] >= blank)
      throw_invalid_argument(fmt::format("label {} is not in [0, {})", values[i], blank));
    Ints& own = labels[static_cast<std::size_t>(b)];
    if (call.attr<bool>("preprocess_collapse_repeated") && !own.empty() && own.back() == values[i]) continue;
    own.push_back(values[i]);
  }
  const bool merge = call.attr<bool>("ctc_merge_repeated");
  Ints targets, counts, endless;  // whether no path has the labels, although there are enough steps without blanks
  for (std::size_t b = 0; b < labels.size(); ++b) {
    const auto count = static_cast<std::int64_t>(labels[b].size());
    if (count > lengths[b] && !call.attr<bool>("ignore_longer_outputs_than_inputs"))
      throw_invalid_argument(fmt::format("sequence {} has {} steps and {} labels", b, lengths[b], count));
    std::int64_t needed = count;
    for (std::size_t i = 1; merge && i < labels[b].size(); ++i) needed += labels[b][i] == labels[b][i - 1];
    endless.push_back(count <= lengths[b] && needed > lengths[b] ? 1 : 0);
    targets.insert(targets.end(), labels[b].begin(), labels[b].end());
    counts.push_back(count);
  }
  const auto loss_of = [&](const at::Tensor& logits) {
    if (!merge) return loss_of_each_step(at::log_softmax(logits, 2), lengths, labels);
    return at::ctc_loss(at::log_softmax(logits, 2), int64_tensor(targets), at::IntArrayRef(lengths),
                        at::IntArrayRef(counts), blank,
                        /*reduction=*/0, /*zero_infinity=*/true);
  };
  at::Tensor loss, gradient;
  {
    const at::AutoGradMode on(true);
    const Tensor leaf = make_leaf(wrap(x.detach()));
    loss = loss_of(dense(leaf));
    const Tensor slope = grad({wrap(loss)}, {leaf}, {Tensor()}, false, false)[0];
    gradient = slope.defined() ? dense(slope).detach() : at::zeros_like(x);
    loss = loss.detach();
  }
  // TensorFlow's loss is infinite there, and its gradient is that of a label outside of the sequence.
  const at::Tensor never = int64_tensor(endless).ne(0);
  const at::Tensor inside = at::arange(x.size(0)).unsqueeze(1) < int64_tensor(lengths);
  loss = at::where(never, at::full({}, INFINITY, loss.options()), loss);
  gradient = at::where(at::logical_and(never, inside).unsqueeze(2), at::softmax(x.detach(), 2), gradient);
  const auto scaled = [](const Tensors& dys, const Tensors& captured) {
    if (!dys[0].defined()) return Tensors{Tensor()};
    return Tensors{wrap(dense(captured[0]) * dense(dys[0]).unsqueeze(0).unsqueeze(2))};
  };
  return with_gradients({call.input(0)}, {wrap(loss), wrap(gradient)}, {wrap(gradient)}, scaled);
}

}  // namespace

void register_ctc(Table& table) {
  table.add("CTCGreedyDecoder", nullptr, greedy_decoder);
  table.add("CTCBeamSearchDecoder", nullptr, beam_search_decoder);
  table.add(
      "CTCLoss",
      [](const Call& call) {
        const Shape& x = call.input(0).shape();
        return Shapes{Shape{x.known_rank() && x.rank() == 3 ? x[1] : kUnknownDim}, x};
      },
      ctc_loss);
}

}  // namespace lockstep::ops

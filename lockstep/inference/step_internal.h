// The steps of a program: one pass over the memory of a few values each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/inference/chain_internal.h"
#include "lockstep/ops/direct_internal.h"

namespace lockstep::inference {

// One run of a program.
struct Run {
  Memory memory;
  float* arena = nullptr;
  float* workspace = nullptr;  // of the step that runs
  bool alone = false;          // on this thread only: others compute other rows of the batch, or there is little to do
  const std::function<void()>* before_step = nullptr;  // throws to end the run
};

// Memory of so many floats, aligned for all loops; on huge pages where it is large.
struct Floats {
  std::shared_ptr<void> owner;
  float* begin = nullptr;
};
Floats allocate(std::int64_t count);
// `floats` rounded up, so that the next tensor is aligned too.
constexpr std::int64_t aligned(std::int64_t floats) { return (floats + 15) / 16 * 16; }

constexpr std::int64_t kGrain = 16384;  // floats for which a thread is worth waking

// Calls work(begin, end) for 0 … count: on this thread where the run is alone, else on those of parallel_for().
void for_parts(const Run& run, std::int64_t count, std::int64_t grain,
               const std::function<void(std::int64_t, std::int64_t)>& work);

// Weights as the loops read them, shared by all programs of a model.
class WeightStore {
 public:
  // `make` writes `size` floats that follow from `source` and from `scale` for each channel.
  Constant get(const std::string& kind, const Constant& source, const std::vector<float>& scale, std::int64_t size,
               const std::function<void(float*)>& make);

 private:
  struct Key {
    std::string kind;
    const float* source;
    std::int64_t size;
    std::vector<float> scale;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    std::weak_ptr<const void> made;
    Constant view;                       // without owner
    std::shared_ptr<const void> source;  // so that its address stays its own
  };
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

// Floats written, and multiplications, for which a step uses several threads.
inline constexpr std::int64_t kFewestThreaded = 32768;
inline constexpr std::int64_t kFewestMultiplications = std::int64_t{1} << 19;
inline constexpr std::int64_t kHeavy = 128 << 10;  // floats of weights that do not stay in the cache

class Step {
 public:
  Step(std::vector<int> reads, int result, Dims dims)
      : reads_(std::move(reads)), result_(result), dims_(std::move(dims)) {}
  virtual ~Step() = default;

  // Values by number; those of what follows included.
  std::vector<int> reads() const;
  int result() const { return result_; }
  const Dims& dims() const { return dims_; }

  // result = result · scale + shift, one number each for an element of the last axis; false: the step cannot.
  virtual bool fold(const std::vector<float>&, const std::vector<float>&) { return false; }
  // `chain` on the result, which is its operand `own`; the step then gives `result`. False: the step cannot.
  virtual bool follow(const Chain& chain, int own, int result);
  void rename(int result) { result_ = result; }
  virtual void prepare(WeightStore&) { following_.prepare(); }
  virtual std::int64_t workspace() const { return 0; }  // floats
  virtual bool pays_threads() const { return product_of(dims_) >= kFewestThreaded; }
  virtual std::int64_t weights_read() const { return 0; }  // floats that a run reads
  // Throws InvalidInput where values are not in range.
  virtual void run(const Run& run) const = 0;

 protected:
  // The operations that follow, on elements begin … end of the result.
  void finish(const Run& run, std::int64_t begin, std::int64_t end) const;
  const float* input(const Run& run, int i) const {
    return run.memory[static_cast<std::size_t>(reads_[static_cast<std::size_t>(i)])];
  }
  float* output(const Run& run) const { return run.memory[static_cast<std::size_t>(result_)]; }

  std::vector<int> reads_;
  int result_;
  Dims dims_;
  Chain following_;
  int own_ = -1;
};
using StepPtr = std::unique_ptr<Step>;

// Thrown by a run that the plain operations have to do: they report the error.
struct InvalidInput {};

// A convolution of `images` images with weights [h, w, I, O]; a dense layer is one of 1 x 1 on one image with a row of
// pixels. `depthwise`: weights [h, w, channels]. `large_batch`: there are other images, which share what is read of the
// weights.
StepPtr convolution(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images, Constant weights,
                    bool depthwise, bool large_batch = false);

// The same with weights [h, w, I / groups, O]: a part of the channels gives each part of the result.
StepPtr grouped_convolution(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images,
                            Constant weights);
// The transposed convolution of `g`, from images [g.out_h, g.out_w, O] to [g.height, g.width, I]; has_phases(g).
StepPtr transposed_convolution(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images,
                               Constant weights, bool large_batch = false);

// A convolution of volumes [input, slice.height, slice.width, I] to [output, slice.out_h, slice.out_w, O], with weights
// [cells, h, w, I, O].
struct VolumeWindow {
  ops::WindowGeometry slice;
  std::int64_t input = 1, output = 1, cells = 1, stride = 1, dilation = 1, before = 0;
};
StepPtr volume_convolution(int x, int result, Dims dims, const VolumeWindow& window, std::int64_t volumes,
                           Constant weights);

class ElementwiseStep : public Step {
 public:
  ElementwiseStep(int result, Chain chain);
  const Chain& chain() const { return chain_; }
  void set_chain(Chain chain);
  bool follow(const Chain& chain, int own, int result) override;
  void prepare(WeightStore&) override { chain_.prepare(); }
  void run(const Run& run) const override;

 private:
  Chain chain_;
};

StepPtr max_pool(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images);
StepPtr average_pool(int x, int result, Dims dims, const ops::WindowGeometry& g, std::int64_t images);
// x [outer, count, inner] to [outer, inner].
StepPtr reduction(int x, int result, Dims dims, Reduction kind, std::int64_t outer, std::int64_t count,
                  std::int64_t inner);
StepPtr softmax(int x, int result, Dims dims);  // along the last axis

// Matrices A[i] · B[i] = C[i]; offsets in floats.
struct ProductOffsets {
  std::int64_t a, b, c;
};
StepPtr products(int a, int b, int result, Dims dims, const ops::Product& shape, std::vector<ProductOffsets> offsets);

// Elements of one value to places of the result; strides and offsets in floats.
struct Move {
  int value;
  Dims extents, from, to;
  std::int64_t from_offset = 0, to_offset = 0;
};
// `background` is written before, unless the moves fill the result.
StepPtr copies(int result, Dims dims, const std::vector<Move>& moves, bool fills, float background = 0);

// The Fourier transform along each of the last axes, whose lengths has_fourier(), of complex numbers as pairs of
// floats; `dims` count them.
bool has_fourier(std::int64_t length);
StepPtr fourier(int x, int result, Dims dims, int axes, bool inverse);

// Rows of a table [rows, columns] by integers of 4 or 8 bytes.
StepPtr gather(int indices, bool wide, int result, Dims dims, std::int64_t rows, std::int64_t columns, Constant table);

// x [ids, inner] to sums of the rows of each segment, [dims[0], inner]; rows of negative ids belong to none.
StepPtr segment_sum(int x, int result, Dims dims, std::vector<std::int64_t> ids);

// A value with all elements of the result, or with a single one.
struct Choice {
  int value;
  bool whole = true;
};
// a where the bool is true, else b. `tests`: the dims of `test`, broadcast to those of the result.
StepPtr select(int test, const Dims& tests, Choice a, Choice b, int result, Dims dims);

// Anything else: `work` reads the memory of `reads` and writes that of the result.
using Work = std::function<void(const std::vector<const float*>&, float*)>;
StepPtr custom(std::vector<int> reads, int result, Dims dims, Work work);

// A program that runs several times. In each iteration its inputs are values of the program around it, or states: those
// that the iteration before gave.
struct LoopInput {
  int value = -1;                     // of the program around it; of a state: its first value
  std::vector<std::int64_t> offsets;  // in bytes, by iteration; empty: none
  int output = -1;                    // of the body: the next state; -1: no state
  std::int64_t bytes = 0;             // of a state
  std::int64_t result_offset = -1;    // of the last state in the result, in floats; -1: nobody reads it
};
// An output of the body that becomes a part of the result.
struct LoopWrite {
  int output = -1;
  std::int64_t bytes = 0;
  std::vector<std::int64_t> offsets;  // in the result, in bytes, by iteration
};
class Program;
struct Loop {
  std::shared_ptr<Program> body;  // not finished
  std::vector<int> body_inputs, body_outputs;
  std::int64_t iterations = 0;
  std::vector<LoopInput> inputs;    // by input of the body
  std::vector<std::int64_t> sizes;  // floats of the body's outputs
  std::vector<LoopWrite> writes;
};
// The result has `floats` elements; those that are not written are 0.
StepPtr loop(int result, std::int64_t floats, Loop loop);

}  // namespace lockstep::inference

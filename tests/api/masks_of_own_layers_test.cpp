// Masks of tensors that go through layers and models of the user's classes: those that Keras 3.15 attaches.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

// Named: units of a build hold several files.
namespace masks_of_own_layers {

using Layers = std::vector<keras::LayerHandle>;
using Body = std::function<Tensor(const Layers&, const Tensor&)>;

template <typename Base>
class Own : public Base {
 public:
  Own(const Layers& inner, Body body) : inner_(inner), body_(std::move(body)) { this->track("inner", inner_); }
  keras::Structure call(const keras::Structure& x) override { return body_(inner_, x.leaf()); }

 private:
  Layers inner_;
  Body body_;
};

class Supporting : public Own<keras::layers::Layer> {
 public:
  using Own::Own;
  bool supports_masking() const override { return true; }
};

Tensor ids() { return Tensor{{1, 2, 3, 0}, {1, 2, 0, 0}}; }
Tensor masked() { return layers::Embedding(10, 8, {.mask_zero = true})(ids()); }
bool has(const Tensor& x) { return x.mask().defined(); }

struct Row {
  std::string name;
  std::function<Layers()> inner;
  Body body;
  bool output;  // has a mask
};

keras::LayerHandle attention() { return layers::MultiHeadAttention({.num_heads = 1, .key_dim = 4}); }
Layers none() { return {}; }
Layers dense() { return {layers::Dense(8)}; }
Tensor first(const Layers& l, const Tensor& x) { return l[0](x); }
Tensor second_of_first(const Layers& l, const Tensor& x) { return l[1](Tensor(l[0](x))); }

std::vector<Row> rows() {
  return {
      {"op", none, [](const Layers&, const Tensor& x) { return x * 2.0; }, false},
      {"identity", none, [](const Layers&, const Tensor& x) { return x; }, true},
      {"Dense", dense, first, true},
      {"Dense, Dropout",
       [] {
         return Layers{layers::Dense(8), layers::Dropout(0.1)};
       },
       second_of_first, true},
      {"LayerNormalization", [] { return Layers{layers::LayerNormalization()}; }, first, true},
      {"sum", dense, [](const Layers& l, const Tensor& x) { return x + Tensor(l[0](x)); }, false},
      {"Add",
       [] {
         return Layers{layers::Dense(8), layers::Add()};
       },
       [](const Layers& l, const Tensor& x) {
         return Tensor(l[1]({x, Tensor(l[0](x))}));
       },
       true},
      {"slice", dense,
       [](const Layers& l, const Tensor& x) {
         return Tensor(l[0](x)).index({ls::all, {{}, 2}});
       },
       false},
      {"Embedding", [] { return Layers{layers::Embedding(10, 8, {.mask_zero = true})}; },
       [](const Layers& l, const Tensor&) { return Tensor(l[0](ids())); }, true},
      {"Embedding, GRU",
       [] {
         return Layers{layers::Embedding(10, 8, {.mask_zero = true}), layers::GRU(8, {.return_sequences = true})};
       },
       [](const Layers& l, const Tensor&) { return Tensor(l[1](Tensor(l[0](ids())))); }, true},
      {"GRU", [] { return Layers{layers::GRU(8)}; }, first, false},
      {"Bidirectional",
       [] {
         return Layers{
             layers::Bidirectional({.layer = layers::GRU(8, {.return_sequences = true}), .merge_mode = "sum"})};
       },
       first, true},
      {"TimeDistributed", [] { return Layers{layers::TimeDistributed(layers::Dense(3))}; }, first, true},
      {"Conv1D", [] { return Layers{layers::Conv1D(8, 1)}; }, first, false},
      {"Sequential",
       [] {
         return Layers{keras::Sequential({layers::Dense(8), layers::Dense(8)})};
       },
       first, true},
  };
}

// Where the output has a mask; that of the input stays.
template <typename Base>
void expect_masks() {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const auto layer = std::make_shared<Own<Base>>(row.inner(), row.body);
    for (int call = 0; call < 2; ++call) {
      const Tensor x = masked();
      EXPECT_EQ(has(Tensor((*layer)(x))), row.output) << "call " << call;
      EXPECT_TRUE(has(x));
    }
  }
}

TEST(MasksOfOwnLayers, OfLayers) { expect_masks<keras::layers::Layer>(); }

TEST(MasksOfOwnLayers, OfModels) { expect_masks<keras::Model>(); }

TEST(MasksOfOwnLayers, AClassThatSupportsMaskingPassesTheMaskOn) {
  const auto layer = std::make_shared<Supporting>(Layers{}, [](const Layers&, const Tensor& x) { return x * 2.0; });
  EXPECT_TRUE(has(Tensor((*layer)(masked()))));
}

class GivesItsMask : public keras::layers::Layer {
 public:
  bool supports_masking() const override { return true; }
  keras::Structure call(const keras::Structure&, const keras::CallContext& context) override {
    return ops::cast(context.mask, "float32");
  }
};

TEST(MasksOfOwnLayers, AClassThatSupportsMaskingGetsTheMask) {
  const std::vector<float> expected{1, 1, 1, 0, 1, 1, 0, 0};
  const auto layer = keras::make_layer<GivesItsMask>();
  EXPECT_EQ(Tensor(layer(masked())).to_vector<float>(), expected);
  const auto inputs = keras::Input({4}, {.dtype = "int32"});
  const auto embedded = layers::Embedding(10, 8, {.mask_zero = true})(inputs);
  const keras::Model model(inputs, keras::make_layer<GivesItsMask>()(embedded));
  EXPECT_EQ(Tensor(model(ids())).to_vector<float>(), expected);
}

// Attention takes the masks from its inputs. The first call of a layer without its own build() builds its layers
// by a symbolic call, which takes them already.
template <typename Base>
void expect_masks_of_attention() {
  struct Case {
    std::string name;
    Layers inner;
    Body body;
    bool first, later;  // whether the outputs of the first call and of later ones have masks
  };
  const std::vector<Case> cases = {
      {"alone", {attention()}, [](const Layers& l, const Tensor& x) { return Tensor(l[0](x, x)); }, false, true},
      {"sum", {attention()}, [](const Layers& l, const Tensor& x) { return x + Tensor(l[0](x, x)); }, false, false},
      {"Add",
       {attention(), layers::Add()},
       [](const Layers& l, const Tensor& x) {
         return Tensor(l[1]({x, Tensor(l[0](x, x))}));
       },
       false,
       false},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const auto layer = std::make_shared<Own<Base>>(row.inner, row.body);
    const Tensor x = masked(), other = masked();
    EXPECT_EQ(has(Tensor((*layer)(x))), row.first);
    EXPECT_FALSE(has(x));
    EXPECT_EQ(has(Tensor((*layer)(other))), row.later);
    EXPECT_FALSE(has(other));
  }
}

TEST(MasksOfOwnLayers, AttentionInLayers) { expect_masks_of_attention<keras::layers::Layer>(); }

TEST(MasksOfOwnLayers, AttentionInModels) { expect_masks_of_attention<keras::Model>(); }

class Cross : public keras::layers::Layer {
 public:
  Cross() { mha = track("mha", attention()); }
  std::vector<std::string> argument_names() const override { return {"x", "context"}; }
  keras::Structure call(const keras::Structure& inputs) override {
    auto [x, context] = inputs;
    seen = {has(x), has(context)};
    return mha(x, context);
  }
  keras::LayerHandle mha;
  std::pair<bool, bool> seen;
};

class BuiltCross : public Cross {
 public:
  void build(const ls::Nested<ls::Shape>&) override {}
};

class Decoder : public keras::layers::Layer {
 public:
  Decoder() {
    embedding = track("embedding", layers::Embedding(10, 8, {.mask_zero = true}));
    cross = track("cross", keras::make_layer<Cross>());
  }
  std::vector<std::string> argument_names() const override { return {"x", "context"}; }
  keras::Structure call(const keras::Structure& inputs) override {
    auto [x, context] = inputs;
    return cross(embedding(x), context);
  }
  keras::LayerHandle embedding;
  keras::CustomLayer<Cross> cross;
};

using Seen = std::pair<bool, bool>;  // of x, of the context

TEST(MasksOfOwnLayers, CrossAttention) {
  const auto cross = keras::make_layer<Cross>();
  const Tensor context = masked();
  EXPECT_FALSE(has(Tensor(cross(masked(), context))));
  EXPECT_EQ(cross->seen, Seen(false, false));
  EXPECT_FALSE(has(context));
  EXPECT_TRUE(has(Tensor(cross(masked(), masked()))));
  EXPECT_EQ(cross->seen, Seen(true, true));

  const auto built = keras::make_layer<BuiltCross>();
  EXPECT_TRUE(has(Tensor(built(masked(), masked()))));
  EXPECT_EQ(built->seen, Seen(true, true));
}

TEST(MasksOfOwnLayers, CrossAttentionInALayer) {
  const auto decoder = keras::make_layer<Decoder>();
  EXPECT_TRUE(has(Tensor(decoder(ids(), masked()))));
  EXPECT_EQ(decoder->cross->seen, Seen(true, false));
  EXPECT_TRUE(has(Tensor(decoder(ids(), masked()))));
  EXPECT_EQ(decoder->cross->seen, Seen(true, true));

  const auto plain = keras::make_layer<Decoder>();
  EXPECT_TRUE(has(Tensor(plain(ids(), ops::ones({2, 4, 8})))));
  EXPECT_EQ(plain->cross->seen, Seen(true, false));
}

// Keras checks the extents of a functional model's inputs, of a Sequential's only those of symbolic ones.
TEST(ModelsInOwnLayers, ASequentialTakesOtherExtents) {
  const auto inner = [](const Layers& l, const Tensor& x) { return Tensor(l[0](x)); };
  const keras::Sequential sequential({keras::Input({6, 8}), layers::Dense(3)});
  const auto layer = std::make_shared<Own<keras::layers::Layer>>(Layers{sequential}, inner);
  EXPECT_EQ((*layer)(ops::ones({2, 6, 8})).shape(), (ls::Shape{2, 6, 3}));
  EXPECT_EQ((*layer)(ops::ones({1, 1, 8})).shape(), (ls::Shape{1, 1, 3}));
  EXPECT_EQ(sequential(ops::ones({2, 6, 8, 1})).shape(), (ls::Shape{2, 6, 3}));
  EXPECT_EQ(sequential.predict(ops::ones({1, 1, 8}), {.verbose = 0}).shape(), (ls::Shape{1, 1, 3}));
  EXPECT_THROW(sequential(ops::ones({2, 6, 7})), ls::errors::InvalidArgumentError);
  EXPECT_THROW(sequential(ops::ones({2, 8})), ls::errors::InvalidArgumentError);
  EXPECT_THROW(sequential(keras::Input({5, 8})), ls::errors::InvalidArgumentError);

  const Tensor input = keras::Input({6, 8});
  const keras::Model functional(input, layers::Dense(3)(input));
  EXPECT_EQ(functional(ops::ones({2, 6, 8, 1})).shape(), (ls::Shape{2, 6, 3}));
  EXPECT_THROW(functional(ops::ones({1, 1, 8})), ls::errors::InvalidArgumentError);
  EXPECT_THROW(functional(keras::Input({5, 8})), ls::errors::InvalidArgumentError);

  const Tensor column = keras::Input({6, 1});
  const keras::Model relu(column, layers::Activation("relu")(column));
  EXPECT_EQ(relu(ops::ones({2, 6, 7})).shape(), (ls::Shape{2, 6, 7}));
  EXPECT_EQ(relu(ops::ones({2, 6})).shape(), (ls::Shape{2, 6, 1}));
  EXPECT_THROW(relu(ops::ones({2, 5, 1})), ls::errors::InvalidArgumentError);
}

}  // namespace masks_of_own_layers

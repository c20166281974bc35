// Keras's layers as classes, to derive from.
//
//   class MCDropout : public layers::Dropout {
//    public:
//     using Dropout::Dropout;
//     keras::Structure call(const keras::Structure& inputs) override {
//       return Dropout::call(inputs, {.training = true});
//     }
//   };
//   auto dropout = keras::make_layer<MCDropout>(0.5);
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors. Of a cell, a class overrides call(inputs, states), as of layers::Cell.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/preprocessing/preprocessing.h"

namespace lockstep::keras {

// Forwards each call to the built-in layer that it contains.
class BuiltInLayer : public Layer {
 public:
  Json get_config() const override;
  std::vector<InputSpec> input_spec() const override;
  void build(const Nested<Shape>& shapes) override;
  Structure call(const Structure& inputs) override;
  Structure call(const Structure& inputs, const CallContext& context) override;
  using Layer::compute_mask;
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs) override;
  bool supports_masking() const override;
  bool uses_mask() const override;
  TrainingArgument training_argument() const override;
  bool casts_inputs() const override;
  std::vector<std::string> argument_names() const override;
  std::vector<std::string> call_parameters() const override;
  void reset_states() override;
  void set_activation(const activations::ActivationPtr& activation) override;
  Structure get_initial_state(const Extent& batch_size) const override;
  void adapt(const Structure& data) override;
  void adapt(const data::Dataset& batches) override;
  void enable_lora(const LoraOptions& options) override;
  OwnState own_state() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  const LayerPtr& built_in() const { return built_in_; }

 protected:
  // Keras's own layer: layers::Dense::from_config(config).
  static LayerHandle layer_from_config(const char* class_name, const Json& config);
  explicit BuiltInLayer(std::nullptr_t) {}
  // Takes the name, and gives the layer to be held a name that is not counted.
  explicit BuiltInLayer(std::string& name);
  BuiltInLayer(const char* class_name, const Json& config);
  // To be called once, at the end of the constructor.
  void hold(LayerPtr built_in);

 private:
  static const BuiltInLayer& plain();
  void trainable_changed() override;
  // Whether the class overrides call() without a context.
  bool overrides_call() const;
  Structure run_built_in(const Structure& inputs, const CallContext& context);
  // The weights, sublayers and generators that the held layer has now.
  void take_parts();

  LayerPtr built_in_;
  std::vector<VariablePtr> taken_;
};

// A convolution, of which a class may replace the operation:
//
//   class Standardized : public layers::Conv2D {
//    public:
//     using Conv2D::Conv2D;
//     Tensor convolution_op(const Tensor& inputs, const Tensor& kernel) override {
//       return Conv2D::convolution_op(inputs, kernel - ops::reduce_mean(kernel));
//     }
//   };
class BuiltInConvolution : public BuiltInLayer {
 public:
  using BuiltInLayer::call;
  // That of a class that overrides convolution_op(): with the bias added, and the activation.
  Structure call(const Structure& inputs, const CallContext& context) override;
  // With the strides, the padding, the dilations and the data format of the layer.
  virtual Tensor convolution_op(const Tensor& inputs, const Tensor& kernel);

  // Arguments of the constructor.
  std::int64_t filters() const { return argument("filters").get<std::int64_t>(); }
  Ints kernel_size() const { return argument("kernel_size").get<Ints>(); }
  Ints strides() const { return argument("strides").get<Ints>(); }
  std::string padding() const { return argument("padding").get<std::string>(); }
  std::string data_format() const { return argument("data_format").get<std::string>(); }
  Ints dilation_rate() const { return argument("dilation_rate").get<Ints>(); }
  std::int64_t groups() const { return argument("groups").get<std::int64_t>(); }
  bool use_bias() const { return argument("use_bias").get<bool>(); }
  activations::ActivationPtr activation() const { return activations::get(argument("activation")); }

 protected:
  using BuiltInLayer::BuiltInLayer;

 private:
  bool overrides_operation() const;
  const Json& argument(std::string_view name) const;

  mutable Json arguments_;  // of the built-in layer, from the first use on
};

// The same of a cell, which RNN runs.
class BuiltInCell : public BuiltInLayer {
 public:
  std::vector<std::int64_t> state_size() const;
  // call(self, inputs, states) of Python: the output, and the list of the next states.
  virtual Structure call(const Structure& inputs, const Structure& states);
  Structure call(const Structure& given, const CallContext& context) override;
  bool overrides_step() const;

 protected:
  using BuiltInLayer::BuiltInLayer;
};

}  // namespace lockstep::keras

namespace lockstep::layers {

// keras.layers.Wrapper: a layer around another one, which a class calls in its call().
class Wrapper : public keras::Layer {
 public:
  explicit Wrapper(LayerHandle layer, keras::LayerOptions options = {});
  template <std::same_as<keras::detail::ConfigOnly> Config>
  explicit Wrapper(const Config& config) : Wrapper(wrapped_in(config.config)) {}
  void build(const keras::Nested<Shape>& shapes) override;
  Json get_config() const override;

  const LayerHandle layer;

 private:
  static LayerHandle wrapped_in(const Json& config);
};

#define LOCKSTEP_BASE_OF(Kind, Name, parameters, arguments)                                         \
  class Name : public keras::Kind {                                                                 \
   public:                                                                                          \
    explicit Name parameters : Kind(options.name) { hold(layers::Name arguments); }                 \
    template <std::same_as<keras::detail::ConfigOnly> Config>                                       \
    explicit Name(const Config& config) : Kind(#Name, config.config) {}                             \
    static LayerHandle from_config(const Json& config) { return layer_from_config(#Name, config); } \
  };
#define LOCKSTEP_BASE(Name, parameters, arguments) LOCKSTEP_BASE_OF(BuiltInLayer, Name, parameters, arguments)
LOCKSTEP_BASE(Dense, (std::int64_t units, DenseOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE(EinsumDense,
              (std::string equation, std::vector<std::int64_t> output_shape, EinsumDenseOptions options = {}),
              (std::move(equation), std::move(output_shape), std::move(options)))
LOCKSTEP_BASE(Embedding, (std::int64_t input_dim, std::int64_t output_dim, EmbeddingOptions options = {}),
              (input_dim, output_dim, std::move(options)))
LOCKSTEP_BASE(ReversibleEmbedding,
              (std::int64_t input_dim, std::int64_t output_dim, ReversibleEmbeddingOptions options = {}),
              (input_dim, output_dim, std::move(options)))
LOCKSTEP_BASE(Masking, (MaskingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Identity, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Activation, (ActivationArg activation, ActivationOptions options = {}),
              (std::move(activation), std::move(options)))
LOCKSTEP_BASE(ReLU, (ReLUOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LeakyReLU, (LeakyReLUOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(PReLU, (PReLUOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(ELU, (ELUOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Softmax, (SoftmaxOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MultiHeadAttention,
              (std::int64_t num_heads, std::int64_t key_dim, MultiHeadAttentionOptions options = {}),
              (num_heads, key_dim, std::move(options)))
LOCKSTEP_BASE(GroupQueryAttention,
              (std::int64_t head_dim, std::int64_t num_query_heads, std::int64_t num_key_value_heads,
               GroupQueryAttentionOptions options = {}),
              (head_dim, num_query_heads, num_key_value_heads, std::move(options)))
LOCKSTEP_BASE(Attention, (AttentionOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AdditiveAttention, (AdditiveAttentionOptions options = {}), (std::move(options)))
LOCKSTEP_BASE_OF(BuiltInConvolution, Conv1D,
                 (std::int64_t filters, keras::Window kernel_size, ConvOptions options = {}),
                 (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE_OF(BuiltInConvolution, Conv2D,
                 (std::int64_t filters, keras::Window kernel_size, ConvOptions options = {}),
                 (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE_OF(BuiltInConvolution, Conv3D,
                 (std::int64_t filters, keras::Window kernel_size, ConvOptions options = {}),
                 (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(Conv1DTranspose, (std::int64_t filters, keras::Window kernel_size, ConvTransposeOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(Conv2DTranspose, (std::int64_t filters, keras::Window kernel_size, ConvTransposeOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(Conv3DTranspose, (std::int64_t filters, keras::Window kernel_size, ConvTransposeOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(DepthwiseConv1D, (keras::Window kernel_size, DepthwiseConvOptions options = {}),
              (std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(DepthwiseConv2D, (keras::Window kernel_size, DepthwiseConvOptions options = {}),
              (std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(SeparableConv1D, (std::int64_t filters, keras::Window kernel_size, SeparableConvOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(SeparableConv2D, (std::int64_t filters, keras::Window kernel_size, SeparableConvOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(ConvLSTM1D, (std::int64_t filters, keras::Window kernel_size, ConvLSTMOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(ConvLSTM2D, (std::int64_t filters, keras::Window kernel_size, ConvLSTMOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(ConvLSTM3D, (std::int64_t filters, keras::Window kernel_size, ConvLSTMOptions options = {}),
              (filters, std::move(kernel_size), std::move(options)))
LOCKSTEP_BASE(Add, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Subtract, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Multiply, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Average, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Maximum, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Minimum, (NamedOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Concatenate, (ConcatenateOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Dot, (keras::Axes axes, DotOptions options = {}), (std::move(axes), std::move(options)))
LOCKSTEP_BASE(BatchNormalization, (BatchNormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LayerNormalization, (LayerNormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GroupNormalization, (GroupNormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(UnitNormalization, (UnitNormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RMSNormalization, (RMSNormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SpectralNormalization, (LayerHandle layer, SpectralNormalizationOptions options = {}),
              (std::move(layer), std::move(options)))
LOCKSTEP_BASE(MaxPooling1D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MaxPooling2D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MaxPooling3D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AveragePooling1D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AveragePooling2D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AveragePooling3D, (PoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalMaxPooling1D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalMaxPooling2D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalMaxPooling3D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalAveragePooling1D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalAveragePooling2D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlobalAveragePooling3D, (GlobalPoolingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AdaptiveMaxPooling1D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(AdaptiveMaxPooling2D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(AdaptiveMaxPooling3D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(AdaptiveAveragePooling1D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(AdaptiveAveragePooling2D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(AdaptiveAveragePooling3D, (keras::Window output_size, AdaptivePoolingOptions options = {}),
              (std::move(output_size), std::move(options)))
LOCKSTEP_BASE(Rescaling, (Json scale, RescalingOptions options = {}), (std::move(scale), std::move(options)))
LOCKSTEP_BASE(Normalization, (NormalizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoryEncoding, (std::int64_t num_tokens, CategoryEncodingOptions options = {}),
              (num_tokens, std::move(options)))
LOCKSTEP_BASE(LSTM, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE(GRU, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE(SimpleRNN, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE_OF(BuiltInCell, LSTMCell, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE_OF(BuiltInCell, GRUCell, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE_OF(BuiltInCell, SimpleRNNCell, (std::int64_t units, RNNOptions options = {}), (units, std::move(options)))
LOCKSTEP_BASE(RNN, (LayerHandle cell, GenericRNNOptions options = {}), (std::move(cell), std::move(options)))
LOCKSTEP_BASE(Bidirectional, (LayerHandle layer, BidirectionalOptions options = {}),
              (std::move(layer), std::move(options)))
LOCKSTEP_BASE(TimeDistributed, (LayerHandle layer, TimeDistributedOptions options = {}),
              (std::move(layer), std::move(options)))
LOCKSTEP_BASE(Dropout, (double rate, DropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(AlphaDropout, (double rate, DropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(SpatialDropout1D, (double rate, SpatialDropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(SpatialDropout2D, (double rate, SpatialDropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(SpatialDropout3D, (double rate, SpatialDropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(GaussianDropout, (double rate, GaussianDropoutOptions options = {}), (rate, std::move(options)))
LOCKSTEP_BASE(GaussianNoise, (double stddev, GaussianNoiseOptions options = {}), (stddev, std::move(options)))
LOCKSTEP_BASE(ActivityRegularization, (ActivityRegularizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Flatten, (FlattenOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Reshape, (keras::Extents target_shape, ReshapeOptions options = {}),
              (std::move(target_shape), std::move(options)))
LOCKSTEP_BASE(Permute, (std::vector<std::int64_t> dims, PermuteOptions options = {}),
              (std::move(dims), std::move(options)))
LOCKSTEP_BASE(RepeatVector, (std::int64_t n, RepeatVectorOptions options = {}), (n, std::move(options)))
LOCKSTEP_BASE(ZeroPadding1D, (ZeroPaddingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(ZeroPadding2D, (ZeroPaddingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(ZeroPadding3D, (ZeroPaddingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Cropping1D, (CroppingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Cropping2D, (CroppingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Cropping3D, (CroppingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(UpSampling1D, (UpSamplingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(UpSampling2D, (UpSamplingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(UpSampling3D, (UpSamplingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CenterCrop, (std::int64_t height, std::int64_t width, CenterCropOptions options = {}),
              (height, width, std::move(options)))
LOCKSTEP_BASE(Resizing, (std::int64_t height, std::int64_t width, ResizingOptions options = {}),
              (height, width, std::move(options)))
LOCKSTEP_BASE(RandomFlip, (RandomFlipOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomRotation, (Json factor, RandomRotationOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomZoom, (Json height_factor, RandomZoomOptions options = {}),
              (std::move(height_factor), std::move(options)))
LOCKSTEP_BASE(RandomTranslation, (RandomTranslationOptions options), (std::move(options)))
LOCKSTEP_BASE(RandomShear, (RandomShearOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomCrop, (std::int64_t height, std::int64_t width, RandomCropOptions options = {}),
              (height, width, std::move(options)))
LOCKSTEP_BASE(RandomContrast, (Json factor, RandomContrastOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomBrightness, (Json factor, RandomBrightnessOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomHue, (Json factor, RandomHueOptions options = {}), (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomSaturation, (Json factor, RandomSaturationOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomSharpness, (Json factor, RandomSharpnessOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomColorDegeneration, (Json factor, RandomColorDegenerationOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomPosterization, (Json factor, RandomPosterizationOptions options = {}),
              (std::move(factor), std::move(options)))
LOCKSTEP_BASE(RandomGrayscale, (RandomGrayscaleOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomColorJitter, (RandomColorJitterOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomInvert, (RandomInvertOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomErasing, (RandomErasingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomGaussianBlur, (RandomGaussianBlurOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Solarization, (SolarizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AutoContrast, (AutoContrastOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Equalization, (EqualizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(ContrastLimitedAdaptiveHistogramEqualization,
              (ContrastLimitedAdaptiveHistogramEqualizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomPerspective, (RandomPerspectiveOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandAugment, (RandAugmentOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(AugMix, (AugMixOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MixUp, (MixUpOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CutMix, (CutMixOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomElasticTransform, (RandomElasticTransformOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MaxNumBoundingBoxes, (std::int64_t max_number, MaxNumBoundingBoxesOptions options = {}),
              (max_number, std::move(options)))
LOCKSTEP_BASE(Discretization, (DiscretizationOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Hashing, (std::int64_t num_bins, HashingOptions options = {}), (num_bins, std::move(options)))
LOCKSTEP_BASE(HashedCrossing, (std::int64_t num_bins, HashedCrossingOptions options = {}),
              (num_bins, std::move(options)))
LOCKSTEP_BASE(Pipeline, (std::vector<LayerHandle> layers, PipelineOptions options = {}),
              (std::move(layers), std::move(options)))
LOCKSTEP_BASE(STFTSpectrogram, (STFTSpectrogramOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MelSpectrogram, (MelSpectrogramOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(StringLookup, (StringLookupOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(IntegerLookup, (IntegerLookupOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TextVectorization, (TextVectorizationOptions options = {}), (std::move(options)))
#undef LOCKSTEP_BASE
#undef LOCKSTEP_BASE_OF

}  // namespace lockstep::layers

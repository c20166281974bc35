// The access of saving and TextVectorization to layers with a vocabulary.
#pragma once

#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

class KeepsVocabulary {
 public:
  virtual ~KeepsVocabulary() = default;
  virtual Tensor vocabulary(bool include_special_tokens) const = 0;
  virtual void set_vocabulary(const Tensor& vocabulary, const std::vector<double>& idf_weights) = 0;
  virtual std::int64_t vocabulary_size() const = 0;
  // Of the inputs; Keras calls it the layer's compute_dtype.
  virtual DType input_dtype() const = 0;
  // Whether the config has the vocabulary, so that files need no asset.
  virtual bool vocabulary_in_config() const = 0;
  // Whether files have "idf_weights" among the layer's variables; those of the whole vocabulary, float32, undefined
  // before there is one.
  virtual bool has_idf_weights() const = 0;
  virtual Tensor idf_weights() const = 0;
  virtual void load_idf_weights(const Tensor& weights) = 0;
  // From vocabulary.txt, special tokens included; after load_idf_weights().
  virtual void load_vocabulary(const std::string& text) = 0;
};

// A line for each token, without a newline at the end.
std::string vocabulary_text(const Tensor& vocabulary);

}  // namespace lockstep::keras

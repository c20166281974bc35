// Families of operations that graphs from files use and layers do not; table.cpp registers them.
#pragma once

#include "lockstep/ops/table_internal.h"

namespace lockstep::ops {

void register_audio(Table& table);               // sound
void register_backprop(Table& table);            // gradients as operations
void register_candidate_sampling(Table& table);  // classes and crops drawn at random
void register_ctc(Table& table);                 // connectionist temporal classification
void register_example_json(Table& table);        // examples in JSON
void register_fake_quant(Table& table);          // simulated quantization
void register_fractional_pool(Table& table);     // pools of windows of uneven size
void register_fused_nodes(Table& table);         // fused nodes that graph optimizers create
void register_image_boxes(Table& table);         // boxes, glimpses, gradients of crops
void register_image_codecs(Table& table);        // images in files
void register_image_patches(Table& table);       // colors, windows as rows, dilation
void register_incomplete_gamma(Table& table);    // derivatives of gamma functions and samples
void register_linalg(Table& table);              // decompositions, solutions, Fourier transforms
void register_low_discrepancy(Table& table);     // Sobol numbers, permutations of indices
void register_matrix_functions(Table& table);    // logarithms and roots of matrices, transforms of chosen axes
void register_optionals(Table& table);           // values that may be missing, in gradients of branches
void register_parse_example(Table& table);       // serialized examples
void register_partition(Table& table);           // parts by number, unique rows, searches
void register_proto_messages(Table& table);      // messages of protocol buffers
void register_quantized_fused(Table& table);     // the same with bias, relu, requantization
void register_quantized(Table& table);           // numbers as integers with a range
void register_quantized_resize(Table& table);    // images of such numbers
void register_ragged(Table& table);              // ragged tensors, sums of gathered rows
void register_ragged_variant(Table& table);      // ragged tensors as variants
void register_random_counts(Table& table);       // Poisson and binomial numbers
void register_random_generators(Table& table);   // numbers of generators, gamma and Poisson numbers
void register_recurrent_blocks(Table& table);    // cells of recurrent networks as one operation
void register_sets(Table& table);                // sets, counts, histograms
void register_sparse(Table& table);              // sparse tensors
void register_sparse_cross(Table& table);        // combinations of features
void register_sparse_matrices(Table& table);     // sparse matrices as variants
void register_special_math(Table& table);        // special functions, complex numbers
void register_summaries(Table& table);           // messages for TensorBoard
void register_tensor_arrays(Table& table);       // TensorArrayV3, StackV2
void register_text(Table& table);                // tensors as text, edit distances
void register_tridiagonal(Table& table);         // tridiagonal matrices
void register_truncated_normal(Table& table);    // normal numbers between bounds
void register_unicode_scripts(Table& table);     // scripts of characters
void register_unicode(Table& table);             // encodings of text and bytes
void register_uniform_quantized(Table& table);   // integers with a scale and a zero point

}  // namespace lockstep::ops

// The families of preprocessing layers, each of which adds its rows to the table of layers.
#pragma once

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

void register_category_layers(ClassTable& registry);     // Discretization, Hashing, HashedCrossing
void register_lookup_layers(ClassTable& registry);       // StringLookup, IntegerLookup
void register_text_vectorization(ClassTable& registry);  // TextVectorization
void register_feature_layers(ClassTable& registry);      // of FeatureSpace: TFDIdentity, TFDConcat

void register_image_augmentation(ClassTable& registry);   // RandomFlip, RandomRotation, …
void register_color_augmentation(ClassTable& registry);   // RandomContrast, RandomHue, …
void register_equalization_layers(ClassTable& registry);  // Equalization, ContrastLimitedAdaptiveHistogramEqualization
void register_perspective_layers(ClassTable& registry);   // RandomPerspective
void register_combined_augmentation(ClassTable& registry);  // RandAugment, AugMix
void register_elastic_layers(ClassTable& registry);         // RandomElasticTransform
void register_mixing_layers(ClassTable& registry);          // MixUp, CutMix
void register_bounding_box_layers(ClassTable& registry);    // MaxNumBoundingBoxes
void register_spectrogram_layers(ClassTable& registry);     // STFTSpectrogram, MelSpectrogram
void register_random_size_layers(ClassTable& registry);     // RandomHeight, RandomWidth
void register_pipeline(ClassTable& registry);

}  // namespace lockstep::keras

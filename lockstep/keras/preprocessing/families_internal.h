// The families of preprocessing layers, each of which adds its rows to the table of layers.
#pragma once

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

void register_category_layers(ClassTable& registry);     // Discretization, Hashing, HashedCrossing
void register_lookup_layers(ClassTable& registry);       // StringLookup, IntegerLookup
void register_text_vectorization(ClassTable& registry);  // TextVectorization

void register_image_augmentation(ClassTable& registry);  // RandomFlip, RandomRotation, …
void register_color_augmentation(ClassTable& registry);  // RandomContrast, RandomHue, …

}  // namespace lockstep::keras

// Batches of a dataset, as fit, evaluate and predict take them.
#pragma once

#include <map>
#include <memory>

#include "lockstep/collectives/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/trainer/batched_data.h"
#include "lockstep/keras/trainer/batches.h"

namespace lockstep::keras {

// Elements are x, (x, y) or (x, y, sample_weight). Each pass opens an iterator of the dataset.
//
// With several `workers` the batches are the same on all of them: each reads the whole dataset, with the chief's seeds.
// A dataset whose options ask for the policy FILE or OFF is read in parts, which the workers send each other.
std::unique_ptr<BatchSource> dataset_batches(data::Dataset dataset, collectives::Communicator* workers,
                                             std::map<std::int64_t, double> class_weight = {});
// The same of any data that fit takes, under the model's strategy (null: none). A PyDataset is shuffled if asked for.
std::unique_ptr<BatchSource> batches_of(const BatchedData& data, distribute::Strategy* strategy, bool shuffle = false,
                                        std::map<std::int64_t, double> class_weight = {});
// An element as a batch. Throws InvalidArgument for more than three parts.
Batch batch_of(const data::Element& element, const std::map<std::int64_t, double>& class_weight);

}  // namespace lockstep::keras

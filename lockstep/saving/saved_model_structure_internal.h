// StructuredValue: nests of tensor specifications and Python values. Internal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/formats/proto/saved_object_graph.pb.h"
#include "lockstep/formats/proto/struct.pb.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::saved_model {

void write_spec(const TensorSpec& spec, tensorflow::StructuredValue* value);
// Lists stay lists, dicts dicts.
void write_specs(const Specs& specs, tensorflow::StructuredValue* value);
// tuple(tuple(positional…, training), dict()).
void write_input_signature(const std::vector<ExportFunction::Argument>& arguments, std::optional<bool> training,
                           tensorflow::StructuredValue* value);
// fullargspec of a function with these parameters.
void write_function_spec(const std::vector<std::string>& parameters, bool takes_training,
                         tensorflow::FunctionSpec* spec);

// The items of a list or tuple; none of other values.
const google::protobuf::RepeatedPtrField<tensorflow::StructuredValue>& items_of(
    const tensorflow::StructuredValue& value);
// The fields of a dict by key, in Python's order of flattening; none of other values.
std::map<std::string, const tensorflow::StructuredValue*> sorted_fields(const tensorflow::StructuredValue& value);

TensorSpec read_spec(const tensorflow::TensorSpecProto& proto);
// The tensor leaves in Python's order of flattening; None and constants have none.
void collect_specs(const tensorflow::StructuredValue& value, std::vector<TensorSpec>* specs);
// What the tensors of a composite value are called: KEY_indices, KEY_values, KEY_dense_shape for a sparse one, KEY,
// KEY_1, … for others, as TensorFlow names composite inputs of TensorFlow 1 and 2.
std::vector<std::string> component_names(const std::string& key, bool sparse, int count);
// The names of the tensors below one entry of a dict of outputs.
std::vector<std::string> entry_names(const std::string& key, const tensorflow::StructuredValue& value);
// Composite values become lists of their components. Puts flat results into the structure; `next` counts those used.
Structure pack_results(const tensorflow::StructuredValue& value, const Tensors& flat, std::size_t* next);

}  // namespace lockstep::saved_model

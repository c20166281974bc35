// Attributes from and to AttrValue. Internal.
#pragma once

#include <string_view>

#include "lockstep/graph/graph_def_internal.h"

namespace lockstep::graph {

// `type` is the attribute's declared type ("list(int)"), which gives the type of an empty list; "" when unknown.
// Empty for an attribute without a value and for kinds that no operation uses.
std::optional<ops::Attr> attr_from_proto(const tensorflow::AttrValue& proto, std::string_view type,
                                         std::string_view what, const Owner& owner);
void attr_to_proto(const ops::Attr& attr, tensorflow::AttrValue* proto);

// Attributes of a node: those whose name begins with "_" are dropped.
ops::Attrs attrs_from_proto(const google::protobuf::Map<std::string, tensorflow::AttrValue>& protos,
                            const ops::Signature* signature, std::string_view what, const Owner& owner);
// Those equal to the signature's default are left out.
void attrs_to_proto(const ops::Attrs& attrs, const ops::Signature* signature,
                    google::protobuf::Map<std::string, tensorflow::AttrValue>* protos);

}  // namespace lockstep::graph

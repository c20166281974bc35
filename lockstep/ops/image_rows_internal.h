// The rows of image operations that register_image adds from other files.
#pragma once

namespace lockstep::ops {

class Table;

void register_detection(Table& table);   // non-maximum suppression, crops
void register_resampling(Table& table);  // bicubic and area resizing, projective transforms

}  // namespace lockstep::ops
